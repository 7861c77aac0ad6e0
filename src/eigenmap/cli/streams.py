"""Robust standard output and error, in any encoding, on a full disk, or closed.

    with guarded_streams():
        app()

Characters that a stream cannot encode are replaced by similar ones or escaped. A result that cannot be written ends the
command: silently with `BROKEN_PIPE` if the reader has gone (`eigenmap search ... | head -1`), otherwise with
`UNWRITABLE` and a sentence on standard error. Notes and progress that cannot be written are dropped, and the work
continues.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

UNWRITABLE = 2
"""Exit code if standard output cannot be written: the disk is full, or the stream is closed."""
BROKEN_PIPE = 141
"""Exit code if the reader of standard output has gone, as reported by a shell for a program ended by SIGPIPE."""

_LOOKALIKES = {"█": "#", "…": "...", "–": "-", "—": "-", "‘": "'", "’": "'", "“": '"', "”": '"', "×": "x", "•": "*"}
_ERRORS = "eigenmap.lookalike"


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Make the standard streams accept any character and fail in one sentence; they are restored afterwards."""
    before = sys.stdout, sys.stderr
    closed = _fill_closed_descriptors()
    notes = _Notes(_opened(sys.stderr, 2))
    sys.stderr = cast(TextIO, notes)
    results = _Results(_opened(sys.stdout, 1), closed=1 in closed)
    sys.stdout = cast(TextIO, results)
    try:
        yield
    finally:
        try:
            results.flush()
        finally:
            notes.flush()
            sys.stdout, sys.stderr = before


class _Stream:
    """A text stream that handles its own failures."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)

    def write(self, text: str) -> int:
        """Write as much as possible."""
        try:
            return self.stream.write(text)
        except OSError as error:
            self.failed(error)
            return len(text)

    def flush(self) -> None:
        """Flush as much as possible."""
        try:
            self.stream.flush()
        except OSError as error:
            self.failed(error)

    def failed(self, error: OSError) -> None:
        """Discard buffered and further output; otherwise the interpreter would fail again at exit."""
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.stream.fileno())
            os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.stream)


class _Notes(_Stream):
    """Standard error: output that cannot be written is dropped."""


class _Results(_Stream):
    """Standard output: a failed write ends the command."""

    def __init__(self, stream: TextIO, closed: bool) -> None:
        super().__init__(stream)
        self.closed_before = closed

    def write(self, text: str) -> int:
        if self.closed_before and text:
            self.closed_before = False
            self.failed(OSError(errno.EBADF, "it is closed"))
        return super().write(text)

    def failed(self, error: OSError) -> None:
        super().failed(error)
        if error.errno == errno.EPIPE:
            raise SystemExit(BROKEN_PIPE)
        from eigenmap.cli.console import complain

        complain(f"standard output cannot be written: {error.strerror or error}")
        raise SystemExit(UNWRITABLE)


def _fill_closed_descriptors() -> set[int]:
    """Open the null device in place of closed standard streams, or the next opened file would take their number."""
    closed = {descriptor for descriptor in (0, 1, 2) if not _is_open(descriptor)}
    for _ in closed:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    return closed


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _opened(stream: TextIO | None, descriptor: int) -> TextIO:
    """Return the stream, or one over the descriptor if Python found it closed."""
    if stream is not None:
        return stream
    return open(descriptor, "w", encoding="utf-8", closefd=False)


def _lookalike(error: UnicodeError) -> tuple[str | bytes, int]:
    r"""Replace characters that an encoding lacks by similar ones, or by an escape such as \u0416."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    part = error.object[error.start : error.end]
    shown = "".join(_LOOKALIKES.get(c) or c.encode("ascii", "backslashreplace").decode("ascii") for c in part)
    return shown, error.end


codecs.register_error(_ERRORS, _lookalike)
