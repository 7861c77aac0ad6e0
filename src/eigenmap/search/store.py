"""The matrix behind an index: codes on disk, memory-mapped, and codes added since, read a prefix at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


class CodeStore:
    """Rows of float32 codes that are only ever appended.

    A memory-mapped matrix stays the first part and is never copied whole.

    >>> store = CodeStore(4)
    >>> store.append(np.ones((3, 4), dtype=np.float32))
    >>> [(first, block.shape) for first, block in store.blocks(dim=2, rows=2)]
    [(0, (2, 2)), (2, (1, 2))]
    """

    def __init__(self, n_components: int, saved: NDArray[np.float32] | None = None) -> None:
        self.n_components = n_components
        self.parts: list[NDArray[np.float32]] = [] if saved is None else [saved]

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def append(self, codes: NDArray[np.float32]) -> None:
        """Add rows at the end."""
        self.parts.append(codes)

    def blocks(self, dim: int, rows: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield (number of its first row, contiguous copy of the first `dim` features) for every `rows` rows.

        Blocks may span parts, so that many small additions are read as fast as one large one.
        """
        for first in range(0, len(self), rows):
            yield first, self._rows(first, min(first + rows, len(self)), dim)

    def take(self, rows: NDArray[np.int64], dim: int) -> NDArray[np.float32]:
        """Copy the first `dim` features of the given rows, which must be in increasing order."""
        taken, first = [np.empty((0, dim), dtype=np.float32)], 0
        for part in self.parts:
            low, high = np.searchsorted(rows, (first, first + len(part)))
            taken.append(part[rows[low:high] - first, :dim])
            first += len(part)
        return np.concatenate(taken)

    def _rows(self, start: int, stop: int, dim: int) -> NDArray[np.float32]:
        block = np.empty((stop - start, dim), dtype=np.float32)
        first = 0
        for part in self.parts:
            low, high = max(start, first), min(stop, first + len(part))
            if low < high:
                block[low - start : high - start] = part[low - first : high - first, :dim]
            first += len(part)
        return block
