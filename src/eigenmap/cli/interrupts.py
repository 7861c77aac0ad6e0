"""Ctrl-C while packages are imported, which may take half a minute on a busy machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPED = 130
"""Exit code of a command that was interrupted, as reported by a shell for a program ended by SIGINT."""


@contextmanager
def prompt_interrupts() -> Iterator[None]:
    """End the process at once if Ctrl-C comes during an import; elsewhere it raises KeyboardInterrupt as usual.

    Some packages swallow the exception: torch imports numpy and ignores whatever goes wrong. The command would go on,
    or fail with an error that nobody understands, since numpy stays half imported.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # for example, ignored in the background
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _is_importing(frame):
        os.write(2, b"Error: stopped.\n")
        os._exit(STOPPED)
    signal.default_int_handler(number, frame)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
