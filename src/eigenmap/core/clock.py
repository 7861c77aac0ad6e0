"""Start of the work that a limit in minutes refers to.

with counted_from(time.perf_counter()):     # the command line, before it imports and reads anything
    fit_images(..., minutes=1)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_BEGAN: ContextVar[float | None] = ContextVar("began", default=None)


@contextmanager
def counted_from(began: float | None) -> Iterator[None]:
    """Let time limits inside count from a moment of `time.perf_counter`; None for the moment at which each begins."""
    token = _BEGAN.set(began)
    try:
        yield
    finally:
        _BEGAN.reset(token)


def began() -> float:
    """Return the moment from which a time limit that begins now counts."""
    known = _BEGAN.get()
    return time.perf_counter() if known is None else known
