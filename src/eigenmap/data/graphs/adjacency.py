r"""Adjacency in CSR form, with constant-time sampling of random neighbours.

A directed entry (row, column) with weight w_rc of the matrix W is drawn with probability w_rc / sum W. For a symmetric
W its two ends are a step of the walk P = D^-1 W started in the degree measure pi_i = d_i / sum d, whose eigenvalues are
those of D^-1/2 W D^-1/2.

Two lookups draw a pair: the column of a uniformly drawn entry is a node in the degree measure, and a uniformly drawn
entry of that node's row is its partner. With weights, each draw is a binary search in their running sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.data.graphs.sorting import EdgeList

Directed = Literal["symmetrise", "bipartite"]
SelfLoops = Literal["remove", "keep"]
Tick = Callable[[int, int], object]
Pair = tuple[Tensor, Tensor]

PIECE = 1 << 24
"""Number of entries that are sorted at a time."""
MOST_NODES = 2**31 - 1
"""Maximum number of nodes: an entry and its direction are one number of 64 bits."""


@dataclass(frozen=True)
class Adjacency:
    """Rows of neighbours: those of node i are `indices[indptr[i]:indptr[i + 1]]`.

    Attributes:
        indptr: (n + 1,) int64.
        indices: (entries,) node numbers, int32 or int64; may be memory-mapped.
        cumulative: (entries,) float64 running sum of the weights, or None if all are 1.
        symmetric: whether each entry has its mirror image.
        merged: number of entries in the original list that repeated others.
        loops: number of self-loops that were removed.

    """

    indptr: Tensor
    indices: Tensor
    cumulative: Tensor | None = None
    symmetric: bool = True
    merged: int = 0
    loops: int = 0

    @property
    def n_nodes(self) -> int:
        """Number of nodes, including those without neighbours."""
        return len(self.indptr) - 1

    @property
    def n_entries(self) -> int:
        """Number of entries: an undirected edge counts twice, a self-loop once."""
        return len(self.indices)

    @property
    def nbytes(self) -> int:
        """Total size of the tensors in bytes."""
        return sum(part.nbytes for part in (self.indptr, self.indices, self.cumulative) if part is not None)

    @property
    def device(self) -> torch.device:
        """Device of the rows."""
        return self.indptr.device

    def to(self, device: torch.device | str) -> Adjacency:
        """Move to another device."""
        cumulative = None if self.cumulative is None else self.cumulative.to(device)
        return replace(self, indptr=self.indptr.to(device), indices=self.indices.to(device), cumulative=cumulative)

    def degrees(self) -> Tensor:
        """Return the sum of the weights in each row, (n,) float64."""
        if self.cumulative is None:
            return self.indptr.diff().double()
        sums = torch.cat([self.cumulative.new_zeros(1), self.cumulative])
        return sums[self.indptr].diff()

    def weights(self, entries: Tensor) -> Tensor:
        """Return the weights of entries by number, float64."""
        if self.cumulative is None:
            return torch.ones(len(entries), dtype=torch.float64, device=self.device)
        before = torch.where(entries > 0, self.cumulative[entries - 1], 0.0)
        return self.cumulative[entries] - before

    def rows_of(self, entries: Tensor) -> Tensor:
        """Return the row of each entry, by binary search."""
        return torch.searchsorted(self.indptr, entries, right=True) - 1

    def centre(self, uniform: Tensor) -> Tensor:
        """Return a node of the degree measure for each uniform number (float64)."""
        return self.column(uniform) if self.symmetric else self.rows_of(self._entry(uniform))

    def column(self, uniform: Tensor) -> Tensor:
        """Return the column of an entry drawn by weight: in the degree measure too, or that of sources if bipartite."""
        return self.indices[self._entry(uniform)].long()

    def neighbour(self, nodes: Tensor, uniform: Tensor) -> Tensor:
        """Return a random neighbour of each node, by weight; every node must have one."""
        first, last = self.indptr[nodes], self.indptr[nodes + 1] - 1
        if self.cumulative is None:
            entries = first + (uniform * (last + 1 - first)).long()
        else:
            low = torch.where(first > 0, self.cumulative[first - 1], 0.0)
            target = low + uniform * (self.cumulative[last] - low)
            entries = torch.searchsorted(self.cumulative, target, right=True)
        # Rounding may lead past the end of a row.
        return self.indices[torch.minimum(torch.maximum(entries, first), last)].long()

    def _entry(self, uniform: Tensor) -> Tensor:
        if self.cumulative is None:
            return (uniform * self.n_entries).long().clamp_(max=self.n_entries - 1)
        entries = torch.searchsorted(self.cumulative, uniform * self.cumulative[-1], right=True)
        return entries.clamp_(max=self.n_entries - 1)

    def keys(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return one number per edge, the same for both directions if the matrix is symmetric."""
        if self.symmetric:
            rows, columns = torch.minimum(rows, columns), torch.maximum(rows, columns)
        return rows * self.n_nodes + columns

    def edges(self) -> Tensor:
        """Return all entries as a list (2, entries) int64."""
        rows = torch.repeat_interleave(torch.arange(self.n_nodes, device=self.device), self.indptr.diff())
        return torch.stack([rows, self.indices.long()])

    def mirrored(self, progress: Tick | None = None) -> bool:
        """Test by random numbers whether each entry (r, c) has its (c, r): sum a_r b_c = sum a_c b_r modulo 2^64."""
        a, b = torch.randint(-(2**62), 2**62, (2, self.n_nodes), generator=torch.Generator().manual_seed(0))
        there = back = 0
        for rows, columns in ticked(self.strips(), self.n_entries, progress):
            there += int((a[rows] * b[columns]).sum())
            back += int((a[columns] * b[rows]).sum())
        return (there - back) % 2**64 == 0

    def strips(self, entries: int = 1 << 22) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all entries as (rows, columns) on the CPU, in strips, since they may be a file."""
        indptr = self.indptr.cpu()
        ends = torch.searchsorted(indptr, torch.arange(entries, self.n_entries + entries, entries))
        first = 0
        for last in sorted(set(ends.clamp_(max=self.n_nodes).tolist())):
            rows = torch.repeat_interleave(torch.arange(first, last), indptr[first : last + 1].diff())
            yield rows, self.indices[int(indptr[first]) : int(indptr[last])].cpu().long()
            first = last

    def components(self, entries: int = 1 << 22, progress: Tick | None = None) -> tuple[int, Tensor]:
        """Return the number of connected components, ignoring directions, and the component of each node.

        Works in strips and drops edges inside components already found, so memory is that of the nodes.
        """
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        found, label = self.n_nodes, torch.arange(self.n_nodes)
        for rows, columns in ticked(self.strips(entries), self.n_entries, progress):
            a, b = label[rows], label[columns]
            apart = a != b
            ends = a[apart].numpy(), b[apart].numpy()
            links = coo_matrix((np.ones(len(ends[0]), np.int8), ends), shape=(found, found))
            found, merged = connected_components(links, directed=False)
            label = torch.from_numpy(merged).long()[label]
        return int(found), label


def ticked(strips: Iterable[Pair], total: int, progress: Tick | None) -> Iterator[Pair]:
    """Yield strips of entries and report, after each, how many of all entries were in those so far."""
    done = 0
    for rows, columns in strips:
        yield rows, columns
        done += len(rows)
        if progress is not None:
            progress(done, total)


def part_of(progress: Tick | None, part: int, parts: int) -> Tick | None:
    """Return the progress of one of several equal parts of a whole, in thousandths; parts may be left out.

    >>> part_of(print, 1, 3)(1, 2)
    1500 3000
    """
    if progress is None:
        return None
    return lambda done, total: progress(1000 * part + 1000 * min(done, total) // max(total, 1), 1000 * parts)


def build_adjacency(
    edge_index: Tensor,
    n_nodes: int,
    weights: Tensor | None = None,
    directed: Directed = "symmetrise",
    self_loops: SelfLoops = "remove",
    progress: Tick | None = None,
) -> Adjacency:
    """Build the adjacency of a list of edges (2, E), on the device of the list.

    Repeated edges count once; their weights add up. "symmetrise" takes the union of both directions ((W + W^T) / 2 with
    weights), so it does not matter whether a list of undirected edges has one direction or both. "bipartite" keeps
    directions and has a row for each *target*, listing what points to it. A self-loop counts once. `progress` is called
    as progress(done, total) while the edges of a large graph are sorted.

    Example:
        >>> build_adjacency(torch.tensor([[0, 1], [1, 2]]), 3).indptr
        tensor([0, 1, 3, 4])

    """
    check_edges(edge_index, n_nodes, weights)
    if directed not in get_args(Directed):
        raise EigenmapError(f'directed must be "symmetrise" or "bipartite", not {directed!r}.')
    source, target = edge_index
    loops = int((source == target).sum()) if self_loops == "remove" else 0
    both = directed == "symmetrise"
    if weights is not None:  # only ratios matter, and sums must neither overflow nor vanish, also in float32
        largest = weights.double().max()
        weights = weights.double() if 1e-30 < float(largest) < 1e30 else weights.double() / largest
        weights = weights / 2 if both else weights
    # Rows are sources; of a bipartite graph, targets.
    ends = (source, target) if both else (target, source)
    counts, columns, sums, listed = [], [], [], 0
    for part in EdgeList(*ends, weights, n_nodes, both, self_loops == "keep").parts(PIECE, progress):
        counts.append(torch.bincount(part.rows - part.first, minlength=part.last - part.first))
        columns.append(part.columns.to(torch.int32))
        sums += [] if part.sums is None else [part.sums]
        listed += part.listed
    if listed == 0:
        raise EigenmapError("The graph has no edges (self-loops aside), so there is nothing to learn from.")
    degrees = torch.cat(counts)
    indptr = torch.zeros(n_nodes + 1, dtype=torch.int64, device=degrees.device)
    torch.cumsum(degrees, 0, out=indptr[1 : len(degrees) + 1])
    indptr[len(degrees) + 1 :] = indptr[len(degrees)]
    cumulative = torch.cat(sums).cumsum(0) if sums else None
    merged = edge_index.shape[1] - loops - listed
    return Adjacency(indptr, torch.cat(columns), cumulative, both, merged, loops)


def check_edges(edge_index: Tensor, n_nodes: int, weights: Tensor | None) -> None:
    """Refuse an invalid list of edges, or one that does not match the nodes."""
    if edge_index.ndim != 2 or len(edge_index) != 2:
        turned = "; transpose it" if edge_index.ndim == 2 and edge_index.shape[1] == 2 else ""
        raise EigenmapError(f"edge_index must be (2, edges), not an array of shape {tuple(edge_index.shape)}{turned}.")
    if edge_index.is_floating_point() or edge_index.is_complex() or edge_index.dtype == torch.bool:
        raise EigenmapError(f"edge_index must contain whole numbers, not {edge_index.dtype}.")
    if n_nodes < 1:
        raise EigenmapError("The graph is empty: it has no nodes.")
    if n_nodes > MOST_NODES:
        raise EigenmapError(f"A graph can have at most {MOST_NODES:,} nodes, not {n_nodes:,}.")
    if edge_index.shape[1] == 0:
        raise EigenmapError("The graph has no edges, so there is nothing to learn from.")
    low, high = int(edge_index.min()), int(edge_index.max())
    if low < 0 or high >= n_nodes:
        wrong = low if low < 0 else high
        raise EigenmapError(f"edge_index names node {wrong}, but there are features for nodes 0 to {n_nodes - 1} only.")
    if weights is not None:
        if weights.shape != (edge_index.shape[1],):
            raise EigenmapError(
                f"There must be one weight per edge ({edge_index.shape[1]:,}), not an array of {tuple(weights.shape)}."
            )
        if weights.is_complex() or not bool((weights.isfinite() & (weights > 0)).all()):
            raise EigenmapError("Edge weights must be finite numbers above 0; leave out edges of weight 0.")
