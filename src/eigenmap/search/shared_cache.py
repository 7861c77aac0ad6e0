"""Thread-safe cache: the first thread that needs a value makes it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SharedCache(Generic[K, V]):
    """Cache of the newest `most` values by key.

    A thread that needs a value being made waits for it; threads that need other values do not.

    >>> squares = SharedCache[int, int](most=2)
    >>> squares.get(3, lambda: 9), squares.get(3, lambda: -1), squares.peek(4)
    (9, 9, None)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._made: dict[K, V] = {}
        self._turns: dict[K, threading.Lock] = {}
        self._lock = threading.Lock()

    def peek(self, key: K) -> V | None:
        """Return the value if it exists, or None."""
        with self._lock:
            return self._made.get(key)

    def values(self) -> list[V]:
        """Return all cached values."""
        with self._lock:
            return list(self._made.values())

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the value, making it if necessary."""
        with self._lock:
            if key in self._made:
                return self._made[key]
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:
            with self._lock:
                if key in self._made:
                    return self._made[key]
            try:
                value = make()
                with self._lock:
                    while len(self._made) >= self.most:
                        del self._made[next(iter(self._made))]
                    self._made[key] = value
            finally:  # even if interrupted: keys of values never made must not accumulate
                with self._lock:
                    self._turns.pop(key, None)
        return value
