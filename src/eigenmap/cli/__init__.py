"""Command-line interface: one folder per group of verbs, each of which registers its verbs with `app`.

    eigenmap fit images PHOTOS/ --out runs/mine
    eigenmap index runs/mine PHOTOS/ --out photos.index
    eigenmap search photos.index some.jpg

The modules import only what the help texts need; everything else is imported when a verb runs.
"""

import sys
import time
import traceback
from types import TracebackType

# Importing a verb registers it.
from eigenmap.cli import demo, embed, export, info, serve, verify
from eigenmap.cli.app import app
from eigenmap.cli.evaluate import classes, nodes, retrieval
from eigenmap.cli.evaluate import vectors as judged
from eigenmap.cli.figures import (
    figures,
    reproduce,
    reproduce_cost,
    reproduce_detection,
    reproduce_graphs,
    reproduce_images,
    reproduce_pictures,
    reproduce_tables,
)
from eigenmap.cli.fit import graph, images, towers, vectors
from eigenmap.cli.interrupts import prompt_interrupts
from eigenmap.cli.search import advise, index, query
from eigenmap.cli.streams import guarded_streams
from eigenmap.core.clock import counted_from
from eigenmap.core.redaction import redacted

__all__ = ["app", "main"]


def main(began: float | None = None) -> None:
    """Run the command line; time limits count from a moment of `time.perf_counter`, by default from now."""
    sys.excepthook = _print_redacted
    with guarded_streams(), counted_from(time.perf_counter() if began is None else began), prompt_interrupts():
        app()


def _print_redacted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of an internal error with passwords in addresses hidden."""
    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))
