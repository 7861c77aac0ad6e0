"""Texts by row number, on disk or in memory: the ids of the items, and what is known of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eigenmap.search.columns import map_file

_AT_ONCE = 65_536


class Texts:
    """A list of byte strings that is only ever appended to.

    The first ones may be mapped from two files: the strings joined, and where each of them ends (int64). Nothing is
    read until it is asked for, so that ten million are opened as fast as ten.

    >>> texts = Texts()
    >>> texts.extend([b"a", b"bc"])
    >>> texts[1], len(texts)
    (b'bc', 2)
    """

    def __init__(self) -> None:
        self._ends: NDArray[np.int64] = np.empty(0, np.int64)
        self._joined: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._recent: list[bytes] = []

    @classmethod
    def mapped(cls, joined: Path, ends: Path, count: int, size: int, folder: int | None = None) -> Texts:
        """The first `count` texts of the two files, `size` bytes in all."""
        texts = cls()
        texts._ends = map_file(ends, count, 8, folder).reshape(-1).view("<i8")
        texts._joined = map_file(joined, size, 1, folder).reshape(-1)
        return texts

    def __len__(self) -> int:
        return len(self._ends) + len(self._recent)

    def __getitem__(self, row: int) -> bytes:
        mapped = len(self._ends)
        if row >= mapped:
            return self._recent[row - mapped]
        start = int(self._ends[row - 1]) if row else 0
        return self._joined[start : int(self._ends[row])].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        start = 0
        for low in range(0, len(self._ends), _AT_ONCE):  # numpy's numbers one by one are slow
            ends = self._ends[low : low + _AT_ONCE].tolist()
            joined, base = self._joined[start : ends[-1]].tobytes(), start
            for end in ends:
                yield joined[start - base : end - base]
                start = end
        yield from self._recent

    def extend(self, texts: Sequence[bytes]) -> None:
        """Add texts at the end."""
        self._recent.extend(texts)


def ends_of(texts: Sequence[bytes], start: int) -> NDArray[np.int64]:
    """Where each text ends, if the first begins at `start`."""
    return start + np.cumsum([len(text) for text in texts], dtype="<i8")
