"""Cancellation of searches: the caller says when a search is no longer wanted, and long loops check.

    stop = threading.Event()
    with cancellation.cancel_when(stop.is_set):
        index.search(queries, where={"label": "cat"})

The wish belongs to the thread that runs the block.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class SearchCancelledError(Exception):
    """Nobody waits for this search any more."""


class _Wish(threading.local):
    """What the current thread was told."""

    unwanted: Callable[[], bool] | None = None


_wish = _Wish()


@contextmanager
def cancel_when(unwanted: Callable[[], bool]) -> Iterator[None]:
    """Stop what this thread does in the block as soon as `unwanted()` is true.

    >>> with cancel_when(lambda: True):
    ...     raise_if_cancelled()
    Traceback (most recent call last):
    eigenmap.search.cancellation.SearchCancelledError: nobody waits for this search any more
    """
    before, _wish.unwanted = _wish.unwanted, unwanted
    try:
        yield
    finally:
        _wish.unwanted = before


def raise_if_cancelled() -> None:
    """Raise `SearchCancelledError` if what this thread does is no longer wanted."""
    if _wish.unwanted is not None and _wish.unwanted():
        raise SearchCancelledError("nobody waits for this search any more")
