"""Sizes and checksums of files, to detect damage."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import IO, NamedTuple

from eigenmap.core.digests import blocks, sha256
from eigenmap.core.files import open_regular


class Checksum(NamedTuple):
    """Size of a file and CRC-32 of its bytes."""

    size: int
    crc32: str

    @classmethod
    def of(cls, file: IO[bytes]) -> Checksum:
        """Compute the checksum of an open file, and rewind it."""
        size = crc = 0
        for block in blocks(file):
            size, crc = size + len(block), zlib.crc32(block, crc)
        file.seek(0)
        return cls(size, f"{crc:08x}")


def content_digest(path: Path) -> str | None:
    """Return the SHA-256 of a file without following links, or None if it does not exist."""
    try:
        descriptor = open_regular(path)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return sha256(file)
