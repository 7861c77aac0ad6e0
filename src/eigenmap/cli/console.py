"""Command-line output: results on standard output, everything else on standard error."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eigenmap.core.logging import LogFunction
from eigenmap.core.processes import is_first_process
from eigenmap.core.redaction import redacted
from eigenmap.core.words import count

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment
    from rich.table import Table

Tick = Callable[[int, int], object]
"""Called with (done, total)."""

_BIDIRECTIONAL = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *_BIDIRECTIONAL)
_ESCAPES = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _CONTROLS}
_ESCAPES |= {ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}
_ESCAPES |= {code: f"\\x{code - 0xDC00:02x}" for code in range(0xDC80, 0xDD00)}  # bytes that are not UTF-8
_ESCAPES_IN_LINES = {code: shown for code, shown in _ESCAPES.items() if code != ord("\n")}


def console(*, stderr: bool = False) -> Console:
    """Return a console; lines to a pipe or file are not wrapped, so that no file name is broken."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    seen = stream is not None and stream.isatty()  # None: closed before Python started
    return Console(stderr=stderr, highlight=False, width=None if seen else 1000)


def print_result(content: Any = "") -> None:
    """Print a result, a line or a table; only the first of several processes prints."""
    if not is_first_process():
        return
    shown = printable(content) if isinstance(content, str) else _Harmless(content)
    console().print(shown, markup=False, soft_wrap=True)


def number_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 0) -> Table:
    """Return a table of numbers, aligned on the right; the first `texts` columns are text."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < texts else "right")
    for row in rows:
        table.add_row(*row)
    return table


def note(line: str) -> None:
    """Print a note that is not a result; only the first of several processes prints."""
    if not is_first_process():
        return
    if hasattr(sys.stderr, "rich_proxied_file"):  # a bar or spinner is on display, and the line goes above it
        print(printable(line), file=sys.stderr)
    else:
        console(stderr=True).print(printable(line), markup=False, soft_wrap=True)


def complain(message: str) -> None:
    """Print one sentence about an error."""
    from rich.text import Text

    sentence = printable(message.rstrip()).removesuffix(".")
    if not sentence.endswith("?"):
        sentence += "."
    console(stderr=True).print(Text.assemble(("Error: ", "bold red"), sentence), soft_wrap=True)


def log_function(quiet: bool) -> LogFunction:
    """Return the function to call with notes."""
    return (lambda line: None) if quiet else note


def printable(text: str) -> str:
    r"""Return the text on one line, without passwords, with anything that could control a terminal escaped.

    Escaped are control characters (C0, DEL and C1), bidirectional overrides, and bytes of a file name that are not
    UTF-8.

    >>> printable("a\x1b[2Jb.jpg")
    'a\\x1b[2Jb.jpg'
    """
    return _encodable(redacted(text).translate(_ESCAPES))


def _encodable(text: str) -> str:
    """Escape surrogates, which no encoding supports."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True)
class _Harmless:
    """A rich table whose cells cannot control the terminal."""

    content: Any

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        from rich.segment import Segment

        for segment in console.render(self.content, options):
            if segment.control:
                yield segment
            else:
                yield Segment(_encodable(redacted(segment.text).translate(_ESCAPES_IN_LINES)), segment.style)


@contextmanager
def progress_bar(what: str, quiet: bool = False) -> Iterator[Tick | None]:
    """Show a progress bar on a terminal, from the first tick to the last; yields None elsewhere, or if `quiet`.

    with progress_bar("reading") as tick:
        load_images(source, progress=tick)
    """
    if quiet or sys.stderr is None or not sys.stderr.isatty() or not is_first_process():
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
            bar.stop()  # a training bar may follow, and a terminal shows one at a time

    try:
        yield tick
    finally:
        bar.stop()


def duration(seconds: float) -> str:
    """Format a duration.

    >>> duration(42), duration(200), duration(9000)
    ('42 seconds', '3.3 minutes', '2.5 hours')
    """
    if seconds < 100:
        return count(math.ceil(seconds), "second")
    return f"{seconds / 60:.1f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"
