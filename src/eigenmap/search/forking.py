"""Support for forking a process that has open indexes.

OpenMP, which faiss uses, does not survive a fork: its waiting worker threads do not exist in the child, which would
wait for them forever. In a child forked after faiss was loaded, faiss therefore uses one thread (in the thread that
forked; threads that the child starts are not limited).

A change in progress on another thread completes before the fork, so that the child has the index in one state, and
locks held by other threads are replaced in the child. A fork may wait long for changes, which may themselves wait for
other processes; meanwhile searches continue and indexes can be opened. The locks they need are taken last and briefly.
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
    """Locks of an index, in the order in which they are taken."""

    changes: AbstractContextManager[object]
    """Lock that may be held for long."""
    publishing: AbstractContextManager[object]
    """Lock that is held only briefly."""


class Forks(Protocol):
    """An object with locks."""

    def locks(self) -> Locks:
        """Return the locks that must be free when a process forks."""
        ...

    def after_fork_in_child(self) -> None:
        """Replace locks in the child, where those of other threads are held forever."""
        ...


class _Fork(threading.local):
    """Locks held by a thread while it forks."""

    def __init__(self) -> None:
        self.held = ExitStack()


_watched: WeakSet[Forks] = WeakSet()
_watching = threading.Lock()
_forking = threading.Lock()
_importing = threading.RLock()
_fork = _Fork()


def watch(index: Forks) -> None:
    """Notify an index of every fork while it exists."""
    with _watching:
        _watched.add(index)


def faiss() -> Any:
    """Import faiss when it is first needed, and never while another thread forks.

    Its classes are created at run time, and their type stubs are incomplete.
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
        with suppress(Exception):  # an import error is reported where faiss is used
            import_module("faiss")  # waits for an import in progress elsewhere


def _in_parent() -> None:
    _fork.held.close()


def _in_child() -> None:
    global _watching, _forking, _importing  # threads that no longer exist may hold the old ones
    _fork.held.pop_all()
    _watching, _forking, _importing = threading.Lock(), threading.Lock(), threading.RLock()
    limit = getattr(sys.modules.get("faiss"), "omp_set_num_threads", None)
    if limit is not None:
        limit(1)
    for index in list(_watched):
        index.after_fork_in_child()


if hasattr(os, "register_at_fork"):  # systems with fork
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
