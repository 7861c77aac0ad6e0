"""Cancellation of searches: the caller sets a condition, and long loops check it.

    stop = threading.Event()
    with cancellation.cancel_when(stop.is_set):
        index.search(queries, where={"label": "cat"})

The condition applies to the thread that runs the block.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class SearchCancelledError(Exception):
    """Raised when a search is no longer wanted."""


class _Current(threading.local):
    """Condition of the current thread."""

    unwanted: Callable[[], bool] | None = None


_current = _Current()


@contextmanager
def cancel_when(unwanted: Callable[[], bool]) -> Iterator[None]:
    """Stop the searches of this thread in the block as soon as `unwanted()` is true.

    >>> with cancel_when(lambda: True):
    ...     raise_if_cancelled()
    Traceback (most recent call last):
    eigenmap.search.cancellation.SearchCancelledError: the search is no longer wanted
    """
    before, _current.unwanted = _current.unwanted, unwanted
    try:
        yield
    finally:
        _current.unwanted = before


def raise_if_cancelled() -> None:
    """Raise `SearchCancelledError` if this thread's work is no longer wanted."""
    if _current.unwanted is not None and _current.unwanted():
        raise SearchCancelledError("the search is no longer wanted")
