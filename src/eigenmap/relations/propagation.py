r"""Propagation: codes of nodes averaged over their neighbours.

With W the weights of the edges, a self-loop of the mean weight c at every node, and D the degrees of W + c I,

    S = D^-1/2 (W + c I) D^-1/2,

and h^0 the codes that features alone give. The ways to combine them:

| way        | propagated codes y |
| ---------- | --- |
| `none`     | h^0 |
| `S`        | S h^0 |
| `S2`       | S^2 h^0 |
| `concat`   | [h^0, S h^0, S^2 h^0], each row of each part of norm 1 |
| `pagerank` | h^10, with h^l = (1 - a) S h^(l-1) + a h^0 and restart a: personalised PageRank [1] |

Columns are independent of each other: `Propagation.apply` works on some columns at a time, and reads the edges in
strips, so that its memory is that of a few columns (`blocks_of_columns`). A node whose features are unknown has
h^0 = 0.

    walk = build_adjacency(edge_index, n)
    y = Propagation("pagerank", restart=0.1).apply(Smoothing.of(walk), codes)

[1] Gasteiger, Bojchevski, Günnemann, Predict then Propagate: Graph Neural Networks meet Personalized PageRank,
ICLR 2019.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from eigenmap.core.arguments import is_number
from eigenmap.core.errors import EigenmapError
from eigenmap.data.graphs.adjacency import Adjacency

Way = Literal["none", "S", "S2", "concat", "pagerank"]
Matrix = npt.NDArray[np.float32]

PAGERANK_STEPS = 10
"""Steps of the power iteration, as published."""
STRIP = 1 << 22
"""Entries of the adjacency matrix that are multiplied at a time."""


@dataclass(frozen=True)
class Smoothing:
    """The matrix S of a graph, applied strip by strip: its edges may stay on disk.

    Attributes:
        walk: the edges, symmetric.
        loop: weight c of the self-loop at every node.
        degrees: (n,) float64, those of W + c I.

    """

    walk: Adjacency
    loop: float
    degrees: npt.NDArray[np.float64]

    @classmethod
    def of(cls, walk: Adjacency) -> Smoothing:
        """S of a symmetric adjacency matrix."""
        if not walk.symmetric:
            raise EigenmapError('Codes are averaged over undirected edges only: choose directed="symmetrise".')
        plain = walk.degrees().cpu().numpy()
        loop = mean_weight(walk)
        return cls(walk, loop, plain + loop)

    def matrix(self) -> Any:
        """S as a sparse matrix of scipy, in memory."""
        from scipy.sparse import csr_matrix, diags

        n, walk = len(self.degrees), self.walk
        parts = (entry_weights(walk, 0, walk.n_entries), walk.indices.cpu().numpy(), walk.indptr.cpu().numpy())
        scale = diags(1 / np.sqrt(self.degrees))
        return (scale @ (csr_matrix(parts, shape=(n, n)) + self.loop * diags(np.ones(n))) @ scale).tocsr()

    def __call__(self, h: Matrix) -> Matrix:
        """S h for some columns h (n, c)."""
        from scipy.sparse import csr_matrix

        scale = (1 / np.sqrt(self.degrees)).astype(np.float32)[:, None]
        scaled = h * scale
        out = np.empty_like(scaled)
        indptr = self.walk.indptr.cpu().numpy()
        for first, last in row_strips(indptr, STRIP):
            start, stop = int(indptr[first]), int(indptr[last])
            columns = self.walk.indices[start:stop].cpu().numpy()
            part = csr_matrix(
                (entry_weights(self.walk, start, stop), columns, indptr[first : last + 1] - start),
                shape=(last - first, len(indptr) - 1),
            )
            out[first:last] = part @ scaled + np.float32(self.loop) * scaled[first:last]
        return out * scale


@dataclass(frozen=True)
class Propagation:
    """One way to combine the codes of a node and of its neighbours; `restart` belongs to "pagerank"."""

    way: Way = "none"
    restart: float = 0.0

    def __post_init__(self) -> None:
        if self.way not in get_args(Way):
            raise EigenmapError(f"neighbours must be one of {', '.join(get_args(Way))}, not {self.way!r}.")
        if self.way == "pagerank" and not (is_number(self.restart) and 0 < self.restart < 1):
            raise EigenmapError(f"restart must be a probability between 0 and 1, not {self.restart!r}.")

    @property
    def hops(self) -> int:
        """How far away a node can be whose code counts."""
        return {"none": 0, "S": 1, "S2": 2, "concat": 2, "pagerank": PAGERANK_STEPS}[self.way]

    @property
    def parts(self) -> int:
        """How many times as long as a code its propagated form is."""
        return 3 if self.way == "concat" else 1

    @property
    def in_words(self) -> str:
        """For messages."""
        return f"pagerank, restart {self.restart:g}" if self.way == "pagerank" else self.way

    def step(self, smoothed: Matrix, own: Matrix) -> Matrix:
        """h^l from S h^(l-1) and h^0."""
        if self.way != "pagerank":
            return smoothed
        a = np.float32(self.restart)
        return (1 - a) * smoothed + a * own

    def states(self, smooth: Smoothing, own: Matrix) -> Iterator[Matrix]:
        """h^0, h^1, ... up to the last hop."""
        h = own
        yield h
        for _ in range(self.hops):
            h = self.step(smooth(h), own)
            yield h

    def combine(self, states: list[Matrix]) -> Matrix:
        """The propagated codes y, from all states of whole rows."""
        if self.way == "concat":
            return np.concatenate([unit(state) for state in states], axis=1)
        return states[-1]

    def apply(self, smooth: Smoothing, own: Matrix) -> Matrix:
        """The propagated codes y of all nodes, from their own codes; everything in memory."""
        if self.way == "concat":
            return self.combine(list(self.states(smooth, own)))
        *_, last = self.states(smooth, own)
        return last


def unit(rows: Matrix) -> Matrix:
    """Rows of norm 1; a row of zeros stays one."""
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norm, 1e-12), np.float32)


def mean_weight(walk: Adjacency) -> float:
    """The mean weight of an edge: 1 where edges have none."""
    return 1.0 if walk.cumulative is None else float(walk.cumulative[-1]) / walk.n_entries


def entry_weights(walk: Adjacency, start: int, stop: int) -> Matrix:
    """The weights of entries number `start` to `stop`."""
    if walk.cumulative is None:
        return np.ones(stop - start, np.float32)
    weights = walk.weights(torch.arange(start, stop, device=walk.device))
    values: Matrix = weights.cpu().numpy().astype(np.float32)
    return values


def row_strips(indptr: npt.NDArray[Any], entries: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows that hold about so many entries each, and one row at least."""
    first, n = 0, len(indptr) - 1
    while first < n:
        last = int(np.searchsorted(indptr, indptr[first] + entries, side="right")) - 1
        last = min(max(last, first + 1), n)
        yield first, last
        first = last


def blocks_of_columns(rows: int, columns: int, memory: int) -> list[slice]:
    """Ranges of columns such that six copies of (rows, range) in float32 need no more bytes than `memory`."""
    size = max(1, min(columns, memory // (24 * max(rows, 1))))
    return [slice(start, min(start + size, columns)) for start in range(0, columns, size)]
