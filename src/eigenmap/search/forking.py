"""Open indexes in a process that forks.

OpenMP, with which faiss computes, does not survive a fork: the threads that it keeps for the next computation are not
in the child, which would wait for them for ever. In a child that was forked after faiss was loaded, faiss therefore
computes on one thread (in the thread that forked; threads that the child starts are not limited).

A change that another thread is making ends before the fork, so that the child has the index in one state, and locks
that other threads hold are new in the child. A fork may have to wait long for changes, which may wait for other
processes; meanwhile searches go on, and indexes are opened. What they need is taken last, and for moments only.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import AbstractContextManager, ExitStack, suppress
from importlib import import_module
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet


class Locks(NamedTuple):
    """What an index holds while it is changed, in the order in which it is taken."""

    changes: AbstractContextManager[object]
    """May be held for long."""
    publishing: AbstractContextManager[object]
    """Is held for moments only."""


class Forks(Protocol):
    """Something that has locks."""

    def locks(self) -> Locks:
        """The locks that must be free when a process forks."""
        ...

    def after_fork_in_child(self) -> None:
        """Go on, in the child, where whatever other threads held is held for ever."""
        ...


class _Fork(threading.local):
    """What a thread holds while it forks."""

    def __init__(self) -> None:
        self.held = ExitStack()


_watched: WeakSet[Forks] = WeakSet()
_watching = threading.Lock()
_forking = threading.Lock()
_importing = threading.RLock()
_fork = _Fork()


def watch(index: Forks) -> None:
    """Tell an index of every fork, as long as it lives."""
    with _watching:
        _watched.add(index)


def faiss() -> Any:
    """The module, imported when it is first needed, and never while another thread forks.

    Its classes are made at run time, and their type stubs lag behind.
    """
    with _importing:
        return import_module("faiss")


def _before() -> None:
    _fork.held = held = ExitStack()
    held.enter_context(_forking)
    waited: set[Forks] = set()
    while True:
        with _watching:
            new = set(_watched) - waited
        for index in new:
            held.enter_context(index.locks().changes)
        waited |= new
        with ExitStack() as last:
            last.enter_context(_watching)
            if set(_watched) <= waited:
                held.enter_context(last.pop_all())
                break
    for index in waited:
        held.enter_context(index.locks().publishing)
    held.enter_context(_importing)
    if "faiss" in sys.modules:
        with suppress(Exception):  # that is for whoever needs it
            import_module("faiss")  # waits for an import by a thread that did not ask for it here


def _in_parent() -> None:
    _fork.held.close()


def _in_child() -> None:
    global _watching, _forking, _importing  # threads that are not here may hold the old ones
    _fork.held.pop_all()
    _watching, _forking, _importing = threading.Lock(), threading.Lock(), threading.RLock()
    limit = getattr(sys.modules.get("faiss"), "omp_set_num_threads", None)
    if limit is not None:
        limit(1)
    for index in list(_watched):
        index.after_fork_in_child()


if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
