"""Codes in column blocks, in memory or mapped from files, read a prefix at a time."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np

from eigenmap.files import open_regular
from eigenmap.search.backend import Floats, Rows
from eigenmap.search.codecs import Bytes, Codec

_DECODED_BYTES = 1 << 19
"""What is decoded at a time stays in the processor's cache."""


_FEW = 16
"""Where one row in so many is wanted, its page is asked for by itself."""


class Columns:
    """Rows of encoded codes that are only ever appended.

    >>> from eigenmap.search.codecs import FloatCodec
    >>> columns = Columns(FloatCodec(4, "float32"))
    >>> columns.append(columns.encoded(np.ones((3, 4), dtype=np.float32)))
    >>> columns.read(0, 2, dim=3).shape
    (2, 3)
    """

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.count = 0
        self._stored: list[Bytes] = [np.empty((0, codec.width(b)), np.uint8) for b in range(len(codec.blocks))]

    @property
    def n_components(self) -> int:
        """Features of a code."""
        return self.codec.blocks[-1][1]

    def encoded(self, codes: Floats) -> list[Bytes]:
        """The bytes of each block."""
        return [self.codec.encode(b, codes[:, first:end]) for b, (first, end) in enumerate(self.codec.blocks)]

    def append(self, encoded: list[Bytes]) -> None:
        """Add rows in memory; room is doubled when it runs out, so that many small additions cost what one does."""
        count = self.count + len(encoded[0])
        for b, rows in enumerate(encoded):
            if count > len(self._stored[b]):
                larger = np.empty((max(count, 2 * len(self._stored[b])), rows.shape[1]), np.uint8)
                larger[: self.count] = self._stored[b][: self.count]
                self._stored[b] = larger
            self._stored[b][self.count : count] = rows
        self.count = count

    def map(self, files: list[Path], count: int, folder: int | None = None) -> None:
        """Read the first `count` rows from one file a block; nothing is read until it is needed."""
        self._stored = [map_file(file, count, self.codec.width(b), folder) for b, file in enumerate(files)]
        self.count = count

    def read(self, start: int, stop: int, dim: int) -> Floats:
        """A contiguous copy of the first `dim` features of rows [start, stop)."""
        copy = np.empty((stop - start, dim), np.float32)
        for b, (first, end) in enumerate(self.codec.blocks):
            if first >= dim:
                break
            read_ahead(self._stored[b])
            at_once = max(1, _DECODED_BYTES // (4 * (end - first)))
            for row in range(start, stop, at_once):
                decoded = self.codec.decode(b, self._stored[b][row : min(row + at_once, stop)])
                copy[row - start : row - start + len(decoded), first:end] = decoded[:, : dim - first]
        return copy

    def take(self, rows: Rows, dim: int) -> Floats:
        """A copy of the first `dim` features of the given rows."""
        copy = np.empty((len(rows), dim), np.float32)
        for b, (first, end) in enumerate(self.codec.blocks):
            if first >= dim:
                break
            fetch(self._stored[b], rows)
            copy[:, first:end] = self.codec.decode(b, self._stored[b][rows])[:, : dim - first]
        return copy

    def block(self, b: int, start: int, stop: int) -> Floats:
        """All features of one block of rows [start, stop); float32 is not copied."""
        read_ahead(self._stored[b])
        return self.codec.decode(b, self._stored[b][start:stop])


def map_file(file: Path, count: int, width: int, folder: int | None = None) -> Bytes:
    """The first count * width bytes of a file as a read-only matrix that stays on disk.

    With `folder`, a descriptor, the file is the one of this name in that folder, whatever its path leads to by now.
    """
    if not count * width:
        return np.empty((count, width), np.uint8)
    descriptor = open_regular(file if folder is None else Path(file.name), folder=folder)
    try:
        mapped = mmap.mmap(descriptor, count * width, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)
    return np.frombuffer(mapped, np.uint8).reshape(count, width)


def fetch(stored: Bytes, rows: Rows) -> None:
    """Ask for the pages of a few rows of a mapped file, all at once.

    Left to itself the system reads 128 kB around each row that is not in memory, and one row after the other: for the
    candidates of a funnel among ten million that is the whole file.
    """
    if _FEW * len(rows) > len(stored) or not stored.shape[1] or (mapped := _map_of(stored)) is None:
        return
    first = rows * stored.shape[1]
    pages = np.unique(np.concatenate([first, first + stored.shape[1] - 1]) // mmap.PAGESIZE)
    mapped.madvise(mmap.MADV_RANDOM)
    for page in pages.tolist():
        mapped.madvise(mmap.MADV_WILLNEED, page * mmap.PAGESIZE, mmap.PAGESIZE)


def read_ahead(stored: Bytes) -> None:
    """Let the system read a mapped file ahead again, which is what a scan wants."""
    if (mapped := _map_of(stored)) is not None:
        mapped.madvise(mmap.MADV_NORMAL)


def _map_of(stored: Bytes) -> mmap.mmap | None:
    """The map that an array lies in; None for one in memory."""
    base: object = stored
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, mmap.mmap) else None
