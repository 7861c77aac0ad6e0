"""Running checksums of append-only files, recorded at every mebibyte to locate damage."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np

BLOCK = 1 << 20
"""Bytes between two recorded checksums."""


def extended(content: bytes | memoryview, size: int, crc: int) -> tuple[bytes, int]:
    """Append to a file of `size` bytes with checksum `crc`; return the checksums recorded (uint32) and the new one.

    >>> notes, crc = extended(bytes(3 * BLOCK), 0, 0)
    >>> len(notes), crc == zlib.crc32(bytes(3 * BLOCK))
    (12, True)
    """
    left, notes = memoryview(content).cast("B"), []
    while left:
        part = left[: BLOCK - size % BLOCK]
        crc, size, left = zlib.crc32(part, crc), size + len(part), left[len(part) :]
        if size % BLOCK == 0:
            notes.append(crc)
    return np.array(notes, "<u4").tobytes(), crc


def damaged_part(chunks: Iterator[bytes], size: int, crc: int, notes: Sequence[int]) -> tuple[int, int] | None:
    """Return the first range [start, end) of a file of `size` bytes that differs from its checksums, or None.

    Without recorded checksums, the range is the entire file.
    """
    found, start = 0, 0
    for number, chunk in enumerate(chunks):
        found = zlib.crc32(chunk, found)
        end = number * BLOCK + len(chunk)
        if number < len(notes) and end < size:
            if found != notes[number]:
                return start, end
            start = end
    return None if found == crc else (start, size)
