"""Column storage of codes, in memory or memory-mapped, read by prefix."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenmap.core.files import open_regular
from eigenmap.search.backend import Floats, RowNumbers
from eigenmap.search.codecs import Bytes, Codec

Scalar = TypeVar("Scalar", bound=np.generic)

_DECODED_BYTES = 1 << 19
"""Bytes decoded at a time, which stay in the processor's cache."""


_FEW = 16
"""Ratio of rows to wanted rows above which pages are requested one by one."""


class Columns:
    """Immutable rows of encoded codes.

    >>> from eigenmap.search.codecs import FloatCodec
    >>> columns = Columns(FloatCodec(4, "float32"))
    >>> more = columns.grown(columns.encoded(np.ones((3, 4), dtype=np.float32)))
    >>> more.read(0, 2, dim=3).shape, columns.count
    ((2, 3), 0)
    """

    def __init__(self, codec: Codec, stored: list[Bytes] | None = None, count: int = 0) -> None:
        self.codec = codec
        self.count = count
        self._stored = stored or [np.empty((0, codec.width(b)), np.uint8) for b in range(len(codec.blocks))]

    @classmethod
    def mapped(cls, codec: Codec, files: list[Path], count: int, folder: int | None = None) -> Columns:
        """Map the first `count` rows of one file per block (`map_file`); nothing is read until it is needed."""
        return cls(codec, [map_file(file, count, codec.width(b), folder) for b, file in enumerate(files)], count)

    @property
    def n_components(self) -> int:
        """Number of features of a code."""
        return self.codec.blocks[-1][1]

    def encoded(self, codes: Floats) -> list[Bytes]:
        """Return the encoded bytes of each block."""
        return [self.codec.encode(b, codes[:, first:end]) for b, (first, end) in enumerate(self.codec.blocks)]

    def grown(self, encoded: list[Bytes]) -> Columns:
        """Return these rows and more, in memory.

        Storage is shared, so only the newest of several may grow again.
        """
        stored = [appended(rows, self.count, more) for rows, more in zip(self._stored, encoded, strict=True)]
        return Columns(self.codec, stored, self.count + len(encoded[0]))

    def read(self, start: int, stop: int, dim: int) -> Floats:
        """Return a contiguous copy of the first `dim` features of rows [start, stop)."""
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

    def take(self, rows: RowNumbers, dim: int) -> Floats:
        """Return a copy of the first `dim` features of the given rows."""
        copy = np.empty((len(rows), dim), np.float32)
        for b, (first, end) in enumerate(self.codec.blocks):
            if first >= dim:
                break
            fetch(self._stored[b], rows)
            copy[:, first:end] = self.codec.decode(b, self._stored[b][rows])[:, : dim - first]
        return copy

    def block(self, b: int, start: int, stop: int) -> Floats:
        """Return all features of one block for rows [start, stop); float32 is not copied."""
        read_ahead(self._stored[b])
        return self.codec.decode(b, self._stored[b][start:stop])


def appended(stored: NDArray[Scalar], count: int, rows: NDArray[Scalar]) -> NDArray[Scalar]:
    """Append rows after the first `count` rows of `stored`, which are in use.

    Rows in use stay in place for concurrent readers or are copied to an array twice as large, so that many small
    additions cost as much as a single one.
    """
    total = count + len(rows)
    if total > len(stored):
        larger = np.empty((max(total, 2 * len(stored)), *stored.shape[1:]), stored.dtype)
        larger[:count] = stored[:count]
        stored = larger
    stored[count:total] = rows
    return stored


def map_file(file: Path, count: int, width: int, folder: int | None = None) -> Bytes:
    """Map the first count * width bytes of a file as a read-only matrix.

    With `folder`, a descriptor, the file is looked up in that open folder, even if its path leads elsewhere by now.
    """
    if not count * width:
        return np.empty((count, width), np.uint8)
    descriptor = open_regular(file if folder is None else Path(file.name), folder=folder)
    try:
        mapped = mmap.mmap(descriptor, count * width, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)
    return np.frombuffer(mapped, np.uint8).reshape(count, width)


def fetch(stored: Bytes, rows: RowNumbers) -> None:
    """Request the pages of a few rows of a mapped file, all at once.

    By default the system reads 128 kB around each missing row, one row after another: for the candidates of a funnel
    among ten million, that is the entire file.
    """
    if _FEW * len(rows) > len(stored) or not stored.shape[1] or (mapped := _map_of(stored)) is None:
        return
    first = rows * stored.shape[1]
    pages = np.unique(np.concatenate([first, first + stored.shape[1] - 1]) // mmap.PAGESIZE)
    mapped.madvise(mmap.MADV_RANDOM)
    for page in pages.tolist():
        mapped.madvise(mmap.MADV_WILLNEED, page * mmap.PAGESIZE, mmap.PAGESIZE)


def read_ahead(stored: Bytes) -> None:
    """Restore read-ahead on a mapped file, which scans need."""
    if (mapped := _map_of(stored)) is not None:
        mapped.madvise(mmap.MADV_NORMAL)


def _map_of(stored: Bytes) -> mmap.mmap | None:
    """Return the memory map of an array, or None for an array in memory."""
    base: object = stored
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, mmap.mmap) else None
