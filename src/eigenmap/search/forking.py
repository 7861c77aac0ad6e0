"""Open indexes in a process that forks.

OpenMP, with which faiss computes, does not survive a fork: the threads that it keeps for the next computation are not
in the child, which would wait for them for ever. In a child that was forked after faiss was loaded, faiss therefore
computes on one thread (in the thread that forked; threads that the child starts are not limited).

A change that another thread is making ends before the fork, so that the child has the index in one state, and locks
that other threads hold are new in the child.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Protocol
from weakref import WeakSet


class Forks(Protocol):
    """Something that has locks."""

    def before_fork(self) -> None:
        """Wait until no other thread changes anything, and keep it so."""
        ...

    def after_fork(self) -> None:
        """Go on, in the parent."""
        ...

    def after_fork_in_child(self) -> None:
        """Go on, in the child, where whatever other threads held is held for ever."""
        ...


_watched: WeakSet[Forks] = WeakSet()
_watching = threading.Lock()
_waiting: list[Forks] = []


def watch(index: Forks) -> None:
    """Tell an index of every fork, as long as it lives."""
    with _watching:
        _watched.add(index)


def _before() -> None:
    _watching.acquire()
    for index in list(_watched):
        index.before_fork()
        _waiting.append(index)


def _in_parent() -> None:
    while _waiting:
        _waiting.pop().after_fork()
    _watching.release()


def _in_child() -> None:
    limit = getattr(sys.modules.get("faiss"), "omp_set_num_threads", None)
    if limit is not None:
        limit(1)
    while _waiting:
        _waiting.pop().after_fork_in_child()
    _watching.release()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
