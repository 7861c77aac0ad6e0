"""A cache that threads share: each value is made by the first thread that asks for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SharedCache(Generic[K, V]):
    """Up to `most` values by key, the newest ones.

    A thread that asks for a value which another is making waits for it; one that asks for another value does not.

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
        """The value, if it is made already."""
        with self._lock:
            return self._made.get(key)

    def values(self) -> list[V]:
        """All that are held."""
        with self._lock:
            return list(self._made.values())

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value, made now if it is not held."""
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
            finally:  # also if it was stopped: keys of what was never made must not pile up
                with self._lock:
                    self._turns.pop(key, None)
        return value
