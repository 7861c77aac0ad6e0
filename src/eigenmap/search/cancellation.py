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


class _Wish(threading.local):
    """Condition of the current thread."""

    unwanted: Callable[[], bool] | None = None


_wish = _Wish()


@contextmanager
def cancel_when(unwanted: Callable[[], bool]) -> Iterator[None]:
    """Stop the work of this thread in the block as soon as `unwanted()` is true.

    >>> with cancel_when(lambda: True):
    ...     raise_if_cancelled()
    Traceback (most recent call last):
    eigenmap.search.cancellation.SearchCancelledError: the search is no longer wanted
    """
    before, _wish.unwanted = _wish.unwanted, unwanted
    try:
        yield
    finally:
        _wish.unwanted = before


def raise_if_cancelled() -> None:
    """Raise `SearchCancelledError` if this thread's work is no longer wanted."""
    if _wish.unwanted is not None and _wish.unwanted():
        raise SearchCancelledError("the search is no longer wanted")
