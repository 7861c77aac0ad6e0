"""Approximate indexes on disk: faiss's own format followed by a line with the checksum.

They can always be rebuilt, so a damaged one is ignored, and failure to write one is not an error.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from eigenmap.core.errors import EigenmapError
from eigenmap.core.folders import BusyFolderError
from eigenmap.search import forking
from eigenmap.search.open_folder import OpenFolder

NAME = re.compile(r"prefix-\d+\.[a-z0-9]+")

_LAST_LINE = re.compile(rb"\neigenmap crc32 ([0-9a-f]{8})\n")
_LAST_BYTES = 25
_AT_ONCE = 1 << 20


class _Summed:
    """Writer that forwards bytes and computes their checksum."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self.crc32 = 0
        self._write = write

    def __call__(self, data: bytes) -> int:
        self.crc32 = zlib.crc32(data, self.crc32)
        self._write(data)
        return len(data)


def read_prefix(folder: OpenFolder, name: str) -> Any:
    """Read the faiss index in a file, or return None if there is no intact one."""
    try:
        check_prefix(folder, name)
        with os.fdopen(folder.open(name), "rb") as stream:
            return forking.faiss().read_index(forking.faiss().PyCallbackIOReader(stream.read))
    except (OSError, EigenmapError, RuntimeError):
        return None


def keep_prefix(folder: OpenFolder, name: str, index: Any) -> None:
    """Store an index for other processes, unless somebody is changing the directory."""
    partial = f".{name}.partial"
    with suppress(OSError, RuntimeError, BusyFolderError), folder.locked(wait=False):
        folder.remove(partial)
        try:
            with os.fdopen(folder.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as stream:
                summed = _Summed(stream.write)
                forking.faiss().write_index(index, forking.faiss().PyCallbackIOWriter(summed))
                stream.write(b"\neigenmap crc32 %08x\n" % summed.crc32)
                stream.flush()
                os.fsync(stream.fileno())
            folder.publish(partial, name)
        finally:
            folder.remove(partial)


def check_prefix(folder: OpenFolder, name: str) -> bool:
    """Verify a file's checksum, raising if it differs; return False for an earlier version without one."""
    size, found = folder.stat(name).st_size - _LAST_BYTES, 0
    with os.fdopen(folder.open(name), "rb") as stream:
        stream.seek(max(0, size))
        last = _LAST_LINE.fullmatch(stream.read())
        if last is None:
            return False
        stream.seek(0)
        while size > 0 and (chunk := stream.read(min(size, _AT_ONCE))):
            found, size = zlib.crc32(chunk, found), size - len(chunk)
    if b"%08x" % found != last[1]:
        raise EigenmapError(f"{folder.path / name} is damaged: its checksum does not match; remove it to rebuild it")
    return True
