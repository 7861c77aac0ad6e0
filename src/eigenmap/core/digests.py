"""Digests of file contents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import IO

_BLOCK = 2**20


def blocks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of an open file from its beginning, in blocks."""
    file.seek(0)
    while block := file.read(_BLOCK):
        yield block


def sha256(file: IO[bytes]) -> str:
    """Return the SHA-256 of an open file, read from its beginning, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for block in blocks(file):
        digest.update(block)
    return digest.hexdigest()
