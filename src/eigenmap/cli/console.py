"""What a person sees: results on standard output, everything else on standard error."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from eigenmap.redaction import redacted

if TYPE_CHECKING:
    from rich.console import Console

Say = Callable[[str], None]
Tick = Callable[[int, int], object]
"""Told (done, total)."""


def console(*, stderr: bool = False) -> Console:
    """Where to print; a pipe or a file gets lines as long as they need to be, so that no file name is cut."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else 1000)


def show(content: Any = "") -> None:
    """Print a result: a line, or a table."""
    console().print(printable(content) if isinstance(content, str) else content, markup=False, soft_wrap=True)


def note(line: str) -> None:
    """Print something worth knowing that is no result."""
    console(stderr=True).print(printable(line), markup=False, soft_wrap=True)


def complain(message: str) -> None:
    """Print one sentence about what went wrong."""
    from rich.text import Text

    sentence = printable(message).rstrip().removesuffix(".")
    if not sentence.endswith("?"):
        sentence += "."
    console(stderr=True).print(Text.assemble(("Error: ", "bold red"), sentence), soft_wrap=True)


def sayer(quiet: bool) -> Say:
    """What to call with notes."""
    return (lambda line: None) if quiet else note


def printable(text: str) -> str:
    """The text without passwords, and with what no terminal can show replaced, such as odd bytes of a file name."""
    return redacted(text).encode("utf-8", "replace").decode("utf-8")


@contextmanager
def progress_bar(what: str, quiet: bool = False) -> Iterator[Tick | None]:
    """A bar on a terminal, there from the first tick to the last; None elsewhere, or if `quiet`.

    with progress_bar("reading") as tick:
        load_images(source, progress=tick)
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console(stderr=True), transient=True)
    task = bar.add_task(what, total=None)

    def tick(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)
        if done < total:
            bar.start()
        else:
            bar.stop()  # a bar for training may follow, and a terminal has room for one

    try:
        yield tick
    finally:
        bar.stop()


def duration(seconds: float) -> str:
    """A time as people say it.

    >>> duration(42), duration(200), duration(9000)
    ('42 seconds', '3.3 minutes', '2.5 hours')
    """
    if seconds < 100:
        return f"{math.ceil(seconds)} seconds"
    return f"{seconds / 60:.1f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"
