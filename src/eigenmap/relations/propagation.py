r"""Propagation: codes of nodes averaged over their neighbours.

With W the weights of the edges, a self-loop of the mean weight c at every node, and D the degrees of W + c I,

    S = D^-1/2 (W + c I) D^-1/2,

and h^0 the codes from features alone. They can be combined in these ways:

| way        | propagated codes y |
| ---------- | --- |
| `none`     | h^0 |
| `S`        | S h^0 |
| `S2`       | S^2 h^0 |
| `concat`   | [h^0, S h^0, S^2 h^0], each row of each part of norm 1 |
| `pagerank` | h^10, with h^l = (1 - a) S h^(l-1) + a h^0 and restart a: personalised PageRank [1] |

Columns are independent, so large matrices are processed a few columns at a time (`blocks_of_columns`), and the edges
are read in strips. A node whose features are unknown has h^0 = 0.

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
"""Steps of the power iteration, as in [1]."""
STRIP = 1 << 22
"""Entries of the adjacency matrix multiplied at a time."""


@dataclass(frozen=True)
class Smoothing:
    """The matrix S of a graph, applied strip by strip, so that edges can stay on disk.

    Attributes:
        walk: the edges, symmetric.
        loop: weight c of the self-loop at every node.
        degrees: (n,) float64 degrees of W + c I.

    """

    walk: Adjacency
    loop: float
    degrees: npt.NDArray[np.float64]

    @classmethod
    def of(cls, walk: Adjacency) -> Smoothing:
        """Return S of a symmetric adjacency matrix."""
        if not walk.symmetric:
            raise EigenmapError('Codes can be averaged only over undirected edges: choose directed="symmetrise".')
        plain = walk.degrees().cpu().numpy()
        loop = mean_weight(walk)
        return cls(walk, loop, plain + loop)

    def matrix(self) -> Any:
        """Return S as a scipy sparse matrix, in memory."""
        from scipy.sparse import csr_matrix, diags

        n, walk = len(self.degrees), self.walk
        parts = (entry_weights(walk, 0, walk.n_entries), walk.indices.cpu().numpy(), walk.indptr.cpu().numpy())
        scale = diags(1 / np.sqrt(self.degrees))
        return (scale @ (csr_matrix(parts, shape=(n, n)) + self.loop * diags(np.ones(n))) @ scale).tocsr()

    def __call__(self, h: Matrix) -> Matrix:
        """Return S h for columns h (n, c)."""
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
            out[first:last] = part @ scaled
        scaled *= np.float32(self.loop)
        out += scaled
        out *= scale
        return out


@dataclass(frozen=True)
class Propagation:
    """A way to combine the codes of a node and its neighbours; only "pagerank" uses `restart`."""

    way: Way = "none"
    restart: float = 0.0

    def __post_init__(self) -> None:
        if self.way not in get_args(Way):
            raise EigenmapError(f"neighbours must be one of {', '.join(get_args(Way))}, not {self.way!r}.")
        if self.way == "pagerank" and not (is_number(self.restart) and 0 < self.restart < 1):
            raise EigenmapError(f"restart must be a probability between 0 and 1, not {self.restart!r}.")

    @property
    def hops(self) -> int:
        """Largest distance of a node whose code counts."""
        return {"none": 0, "S": 1, "S2": 2, "concat": 2, "pagerank": PAGERANK_STEPS}[self.way]

    @property
    def parts(self) -> int:
        """Length of a propagated code, in multiples of the length of a code."""
        return 3 if self.way == "concat" else 1

    @property
    def in_words(self) -> str:
        """Description for messages."""
        return f"pagerank, restart {self.restart:g}" if self.way == "pagerank" else self.way

    def step(self, smoothed: Matrix, own: Matrix) -> Matrix:
        """Return h^l from S h^(l-1), which it may change, and h^0."""
        if self.way == "pagerank":
            a = np.float32(self.restart)
            smoothed *= 1 - a
            smoothed += a * own
        return smoothed

    def states(self, smooth: Smoothing, own: Matrix) -> Iterator[Matrix]:
        """Yield h^0, h^1, ... up to the last hop."""
        h = own
        yield h
        for _ in range(self.hops):
            h = self.step(smooth(h), own)
            yield h

    def combine(self, states: list[Matrix]) -> Matrix:
        """Return the propagated codes y from all states of entire rows."""
        if self.way == "concat":
            return np.concatenate([unit(state) for state in states], axis=1)
        return states[-1]

    def apply(self, smooth: Smoothing, own: Matrix) -> Matrix:
        """Return the propagated codes y of all nodes from their own codes, in memory."""
        if self.way == "concat":
            return self.combine(list(self.states(smooth, own)))
        *_, last = self.states(smooth, own)
        return last


def unit(rows: Matrix) -> Matrix:
    """Scale rows to norm 1; zero rows stay zero."""
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norm, 1e-12), np.float32)


def mean_weight(walk: Adjacency) -> float:
    """Return the mean weight of an edge; 1 for edges without weights."""
    return 1.0 if walk.cumulative is None else float(walk.cumulative[-1]) / walk.n_entries


def entry_weights(walk: Adjacency, start: int, stop: int) -> Matrix:
    """Return the weights of entries `start` to `stop`."""
    if walk.cumulative is None:
        return np.ones(stop - start, np.float32)
    weights = walk.weights(torch.arange(start, stop, device=walk.device))
    values: Matrix = weights.cpu().numpy().astype(np.float32)
    return values


def row_strips(indptr: npt.NDArray[Any], entries: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with about `entries` entries each, and at least one row."""
    first, n = 0, len(indptr) - 1
    while first < n:
        last = int(np.searchsorted(indptr, indptr[first] + entries, side="right")) - 1
        last = min(max(last, first + 1), n)
        yield first, last
        first = last


def blocks_of_columns(rows: int, columns: int, memory: int) -> list[slice]:
    """Return ranges of columns, about equal, such that five float32 copies of (rows, range) fit into `memory` bytes."""
    most = max(1, min(columns, memory // (20 * max(rows, 1))))
    size = -(-columns // max(1, -(-columns // most)))
    return [slice(start, min(start + size, columns)) for start in range(0, columns, max(1, size))]
