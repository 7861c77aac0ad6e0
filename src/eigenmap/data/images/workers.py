"""Decoding of images on threads, in order, with a bounded number in memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from eigenmap.data.images.decode import UnreadableImageError

T = TypeVar("T")
D = TypeVar("D")

WAITING_PER_WORKER = 8
"""Decoded images in flight per worker: enough to keep all workers busy."""


def decode_in_order(
    items: Iterable[T], decode: Callable[[T], D], workers: int, ahead: int | None = None
) -> Iterator[D | UnreadableImageError]:
    """Decode on `workers` threads (Pillow releases the interpreter lock) and yield in the order of `items`.

    At most `ahead` images are decoded before they are requested. An unreadable image is yielded as its error.
    """
    at_most = WAITING_PER_WORKER * workers if ahead is None else max(1, ahead)

    def attempt(item: T) -> D | UnreadableImageError:
        try:
            return decode(item)
        except UnreadableImageError as error:
            return error

    pool = ThreadPoolExecutor(workers, thread_name_prefix="decode")
    waiting: deque[Future[D | UnreadableImageError]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(attempt, item))
            if len(waiting) >= at_most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
