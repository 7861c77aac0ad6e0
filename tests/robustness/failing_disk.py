"""A disk that fails from the n-th change on: full, or read-only.

Faults are raised where Python asks for a change: when a file is opened for writing, written through a descriptor or
synced, and when a name is made, moved or removed. A full disk still lets names be moved and removed; a read-only one
nothing. What libraries write by themselves fails when it is synced, as it does on disks that allocate late.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

Kind = Literal["full", "read-only"]
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_MAKING = ("os.mkdir", "os.link", "os.symlink", "os.truncate")
_MOVING = ("os.rename", "os.remove", "os.rmdir", "ctypes.dlsym")


class FailingDisk:
    """Counts changes below a folder, and fails from one of them on."""

    def __init__(self) -> None:
        self.kind: Kind = "full"
        self.first: int | None = None
        self.changes = 0
        self.active = False
        sys.addaudithook(self._hook)  # which can never be removed

    @contextmanager
    def failing(self, kind: Kind, first: int | None) -> Iterator[None]:
        """Fail from the change number `first` on (None: only count them)."""
        self.kind, self.first, self.changes, self.active = kind, first, 0, True
        sync, write = os.fsync, os.pwrite
        os.fsync = lambda descriptor: self._change("sync") or sync(descriptor)  # type: ignore[func-returns-value]
        os.pwrite = lambda *given: self._change("write") or write(*given)  # type: ignore[func-returns-value]
        try:
            yield
        finally:
            self.active = False
            os.fsync, os.pwrite = sync, write

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event == "open":
            mode = arguments[2] if len(arguments) > 2 else 0
            if isinstance(mode, int) and mode & _WRITING and not str(arguments[0]).startswith("/dev/"):
                self._change("open")
        elif event in _MAKING:
            self._change("make")
        elif event in _MOVING and (event != "ctypes.dlsym" or arguments[1] == "renameat2"):
            self._change("move")

    def _change(self, what: str) -> None:
        self.changes += 1
        if self.first is None or self.changes < self.first or (self.kind == "full" and what == "move"):
            return
        code = errno.ENOSPC if self.kind == "full" else errno.EROFS
        raise OSError(code, os.strerror(code))
