"""The command line: one file a group of verbs, each of which adds its verbs to `app`.

    eigenmap fit images PHOTOS/ --out runs/mine
    eigenmap index runs/mine PHOTOS/ --out photos.index
    eigenmap search photos.index some.jpg

The modules import no more than the help texts need; what computes is imported when a verb runs.
"""

import sys
import traceback
from types import TracebackType

from eigenmap.cli import (  # noqa: F401 - they register their verbs
    advise,
    demo,
    embed,
    evaluate,
    evaluate_classes,
    evaluate_nodes,
    export,
    figures,
    fit,
    fit_graph,
    index,
    info,
    reproduce,
    serve,
    verify,
)
from eigenmap.cli.app import app
from eigenmap.redaction import redacted

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line."""
    sys.excepthook = _print_redacted
    app()


def _print_redacted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of a mistake of ours without the passwords of the addresses in it."""
    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))
