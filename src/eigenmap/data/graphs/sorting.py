r"""Sorting of the entries of an adjacency matrix, a range of rows at a time.

An entry (row, column) becomes the key 2 (row n + column), plus 1 if it is the mirror image of an edge of the list. One
pass counts the entries of each row. A second sorts strips of the list and puts every key into the part of its row, and
each part is then sorted. So time and memory grow linearly with the number of edges: memory is that of the list, of the
keys (16 bytes for an undirected edge) and of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

Strip = tuple[Tensor, Tensor, Tensor | None]


class Part(NamedTuple):
    """Sorted entries of rows `first` to `last`, each once.

    Attributes:
        first: first row.
        last: the row after the last.
        rows: rows of the entries.
        columns: their columns.
        sums: sums of the weights of repeated entries, float64, or None.
        listed: number of distinct entries that are in the list itself, not only mirrored.

    """

    first: int
    last: int
    rows: Tensor
    columns: Tensor
    sums: Tensor | None
    listed: int


@dataclass(frozen=True)
class EdgeList:
    """Edges from rows to columns, with weights or without.

    Attributes:
        rows: (E,) node numbers of any integer type.
        columns: (E,) node numbers.
        weights: (E,) float64, or None.
        n_nodes: number of nodes.
        mirror: whether each edge is an entry in both directions.
        loops: whether self-loops are entries.

    """

    rows: Tensor
    columns: Tensor
    weights: Tensor | None
    n_nodes: int
    mirror: bool
    loops: bool

    def parts(self, piece: int, progress: Callable[[int, int], object] | None = None) -> Iterator[Part]:
        """Yield the entries in parts of about `piece`; `progress` is called as progress(done, total) meanwhile."""
        counts = self._counts(max(piece, self.n_nodes))
        ends = counts.cumsum(0)
        total = int(ends[-1])
        wanted = torch.arange(piece, total + piece, piece, device=ends.device).clamp_(max=total)
        lasts = torch.unique(torch.searchsorted(ends, wanted) + 1)
        keys, weights = self._by_part(piece, ends, lasts, progress)
        first = start = 0
        for last, stop in zip(lasts.tolist(), ends[lasts - 1].tolist(), strict=True):
            inside = slice(start, stop)
            yield self._merged(first, last, keys[inside], None if weights is None else weights[inside])
            first, start = last, stop
            if progress is not None:
                progress(total + stop, 2 * total)

    def _strips(self, size: int) -> Iterator[Strip]:
        """Yield the edges, without self-loops if these are no entries."""
        for start in range(0, len(self.rows), size):
            part = slice(start, start + size)
            rows, columns = (ends[part].long().contiguous() for ends in (self.rows, self.columns))
            weights = None if self.weights is None else self.weights[part]
            if not self.loops:
                kept = rows != columns
                rows, columns, weights = rows[kept], columns[kept], None if weights is None else weights[kept]
            yield rows, columns, weights

    def _counts(self, size: int) -> Tensor:
        """Return the number of entries in each row, repeated ones included."""
        counts = torch.zeros(self.n_nodes, dtype=torch.int64, device=self.rows.device)
        for rows, columns, _ in self._strips(size):
            counts += torch.bincount(rows, minlength=self.n_nodes)
            if self.mirror:
                counts += torch.bincount(columns, minlength=self.n_nodes)
        return counts

    def _by_part(
        self, size: int, ends: Tensor, lasts: Tensor, progress: Callable[[int, int], object] | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the keys and weights of all entries, those of one part beside each other."""
        total = int(ends[-1])
        keys = torch.empty(total, dtype=torch.int64, device=ends.device)
        values = None if self.weights is None else keys.new_empty(total, dtype=torch.float64)
        free = [0, *ends[lasts - 1].tolist()]
        limits = 2 * lasts * self.n_nodes  # keys of a part are below its limit
        done = 0
        for rows, columns, weights in self._strips(size):
            key = 2 * (rows * self.n_nodes + columns)
            if self.mirror:
                key = torch.cat([key, 2 * (columns * self.n_nodes + rows) + 1])
                weights = None if weights is None else torch.cat([weights, weights])
            key, weights = _sorted(key, weights)
            start = 0
            for part, stop in enumerate(torch.searchsorted(key, limits).tolist()):
                where = slice(free[part], free[part] + stop - start)
                keys[where] = key[start:stop]
                if values is not None and weights is not None:
                    values[where] = weights[start:stop]
                start, free[part] = stop, where.stop
            done += len(key)
            if progress is not None:
                progress(done, 2 * total)
        return keys, values

    def _merged(self, first: int, last: int, keys: Tensor, weights: Tensor | None) -> Part:
        """Return the entries of one part."""
        keys, weights = _sorted(keys, weights)
        directed = torch.unique_consecutive(keys)
        listed = int((directed % 2 == 0).sum())
        entries, sums = torch.unique_consecutive(directed // 2), None
        if weights is not None:
            where = torch.searchsorted(entries, keys // 2)
            sums = torch.zeros(len(entries), dtype=torch.float64, device=keys.device).index_add_(0, where, weights)
        rows = torch.div(entries, self.n_nodes, rounding_mode="floor")
        return Part(first, last, rows, entries - rows * self.n_nodes, sums, listed)


def _sorted(keys: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Sort keys, on a CPU in place if there are no weights, and their weights with them."""
    if weights is None and keys.device.type == "cpu":
        keys.numpy().sort()  # without the order, which torch computes too
        return keys, None
    if weights is None:
        return keys.sort().values, None
    keys, order = keys.sort(stable=True)
    return keys, weights[order]
