"""Byte strings by row number, on disk or in memory: ids and metadata of the items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eigenmap.core.errors import EigenmapError
from eigenmap.search.columns import map_file
from eigenmap.search.index_file import RESTORE

_AT_ONCE = 65_536


class Texts:
    """Immutable list of byte strings.

    The first part may be mapped from two files: the joined strings, and the end of each (int64). Nothing is read until
    it is requested, so ten million are opened as fast as ten.

    >>> texts = Texts().grown([b"a", b"bc"])
    >>> texts[1], len(texts)
    (b'bc', 2)
    """

    def __init__(self) -> None:
        self._file: Path | None = None
        self._ends: NDArray[np.int64] = np.empty(0, np.int64)
        self._joined: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._recent: list[bytes] = []  # shared with lists grown from this one
        self._own = 0  # number of recent strings that belong to this list

    @classmethod
    def mapped(cls, joined: Path, ends: Path, count: int, size: int, folder: int | None = None) -> Texts:
        """Map the first `count` strings of the two files (`map_file`), `size` bytes in total."""
        texts = cls()
        texts._file = ends
        texts._ends = map_file(ends, count, 8, folder).reshape(-1).view("<i8")
        texts._joined = map_file(joined, size, 1, folder).reshape(-1)
        return texts

    def __len__(self) -> int:
        return len(self._ends) + self._own

    def __getitem__(self, row: int) -> bytes:
        mapped = len(self._ends)
        if row >= mapped + self._own:
            raise IndexError(row)
        if row >= mapped:
            return self._recent[row - mapped]
        start, end = int(self._ends[row - 1]) if row else 0, int(self._ends[row])
        if not 0 <= start <= end <= len(self._joined):
            self._refuse()
        return self._joined[start:end].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        start = 0
        for low in range(0, len(self._ends), _AT_ONCE):  # accessing NumPy scalars one by one is slow
            part = self._ends[low : low + _AT_ONCE]
            if part[0] < start or part[-1] > len(self._joined) or (part[1:] < part[:-1]).any():
                self._refuse()
            ends = part.tolist()
            joined, base = self._joined[start : ends[-1]].tobytes(), start
            for end in ends:
                yield joined[start - base : end - base]
                start = end
        yield from islice(self._recent, self._own)

    def _refuse(self) -> None:
        raise EigenmapError(f"{self._file} is damaged: it contains impossible positions; {RESTORE}")

    def grown(self, texts: Sequence[bytes]) -> Texts:
        """Return these strings and more; only the newest of several lists may grow again."""
        more = Texts()
        more._file, more._ends, more._joined = self._file, self._ends, self._joined
        # Leftovers of an aborted addition do not belong to any list.
        more._recent = self._recent if len(self._recent) == self._own else self._recent[: self._own]
        more._recent.extend(texts)
        more._own = len(more._recent)
        return more


def ends_of(texts: Sequence[bytes], start: int) -> NDArray[np.int64]:
    """Return the end of each string if the first begins at `start`."""
    return start + np.cumsum([len(text) for text in texts], dtype="<i8")
