r"""Nearest-neighbour graph as a relation: spectral embedding that extends to new points.

Every point is joined to its nearest neighbours, and the graph is made symmetric, W = (N + N^T) / 2 with N_ij = 1 if j
is among the neighbours of i. With degrees d_i = sum_j W_ij, the normalised adjacency

    A = D^-1/2 W D^-1/2

has eigenvalues 1 = mu_1 >= mu_2 >= ... >= -1. Its eigenvectors divided by sqrt(d) are functions f of the points, W f =
mu D f: eigenfunctions of the kernel W_ij / (p_i p_j vol) in the degree measure p_i = d_i / vol, vol = sum_i d_i,
orthonormal there. In that form the solution is a smooth function of x, which a network can represent, and edges drawn
at random are pairs (x, x+) of the relation.

Convention: the largest eigenvalues of A (used here) and the smallest eigenvalues of the Laplacian L = I - A belong to
the same functions in the same order, lambda_j = 1 - mu_j.

[1] Belkin, Niyogi: Laplacian eigenmaps for dimensionality reduction and data representation, 2003.
[2] von Luxburg: A tutorial on spectral clustering, 2007.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eigenmap.core.batch import Batch
from eigenmap.core.errors import EigenmapError
from eigenmap.core.sparse import sparse_coo
from eigenmap.relations.operator import MatrixOperator

EXACT = 20_000
"""Number of points up to which all distances are computed; beyond it, neighbours are found by HNSW."""
LINKS, EFFORT = 32, 64
"""Links per point in the HNSW graph, and number of candidates kept in a search."""


class NeighbourGraph:
    """Symmetric graph of the `n_neighbors` nearest neighbours, its degree measure and its operator.

    Args:
        x: (n, d) points.
        n_neighbors: neighbours per point, not counting itself.
        seed: seed of the edges drawn by `batch`.
        batch_size: edges per batch.

    Example:
        >>> graph = NeighbourGraph(torch.rand(200, 2).double(), n_neighbors=5)
        >>> float(graph.operator().apply(torch.ones(200, 1).double()).mean())  # constants have eigenvalue 1
        1.0

    """

    def __init__(self, x: Tensor, n_neighbors: int = 15, *, seed: int = 0, batch_size: int = 1024) -> None:
        n = len(x)
        valid = isinstance(n_neighbors, Integral) and not isinstance(n_neighbors, bool)
        if not valid or not 1 <= n_neighbors < n:
            raise EigenmapError(
                f"n_neighbors must be a whole number from 1 to {n - 1}, one less than the number of points, "
                f"not {n_neighbors!r}."
            )
        n_neighbors = int(n_neighbors)  # may be a NumPy integer
        self.x, self.n_neighbors, self.seed, self.batch_size = x, n_neighbors, seed, batch_size
        self._origin = x.mean(0)
        # faiss adds squares in float32, which overflow from 1e19 on; dividing by a power of two loses no digit.
        self._unit = 2.0 ** math.frexp(float((x - self._origin).abs().max()))[1] / 2
        self._index = _index(self._single(x))
        squares, found = self._search(x, n_neighbors + 1)
        rows, columns, kept = _without_self(found, n_neighbors)
        self.spacing = self._unit * float(np.sqrt(np.maximum(squares[kept], 0).mean()))
        half = torch.full((2 * len(rows),), 0.5, dtype=torch.float64)
        indices = torch.from_numpy(np.stack([np.r_[rows, columns], np.r_[columns, rows]]))
        adjacency = sparse_coo(indices, half, (n, n)).coalesce()
        self.edges, self.weights = adjacency.indices(), adjacency.values()
        self.degree = torch.zeros(n, dtype=torch.float64).index_add_(0, self.edges[0], self.weights)

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.x)

    def operator(self) -> NeighbourOperator:
        """Return T in the degree measure; at other points, T f is the mean of f over the nearest points."""
        return NeighbourOperator(self)

    def components(self) -> int:
        """Return the number of connected components."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        edges = coo_array((self.weights.numpy(), tuple(self.edges.numpy())), shape=(len(self), len(self)))
        return int(connected_components(edges, directed=False, return_labels=False))

    def gram(self) -> Tensor:
        """Return W_ij / (p_i p_j vol), sparse: the kernel whose eigenfunctions in the degree measure are sought."""
        i, j = self.edges
        values = self.weights * self.degree.sum() / (self.degree[i] * self.degree[j])
        return sparse_coo(self.edges, values, (len(self), len(self)), coalesced=True)

    def batch(self, step: int) -> Batch:
        """Return both ends of edges drawn in proportion to their weight; a function of seed and step."""
        entropy = np.random.SeedSequence((self.seed % 2**64, step)).generate_state(1)
        generator = torch.Generator().manual_seed(int(entropy[0]))
        # All directed entries of W are 1/2 or 1: rejection sampling would waste half.
        at = torch.rand(self.batch_size, generator=generator, dtype=torch.float64)
        cumulated = self._cumulated()
        drawn = torch.searchsorted(cumulated, at * cumulated[-1], right=True).clamp_max_(len(cumulated) - 1)
        i, j = self.edges[:, drawn]
        return Batch(self.x[i], self.x[j])

    def _cumulated(self) -> Tensor:
        if not hasattr(self, "_sums"):
            self._sums = self.weights.cumsum(0)
        return self._sums

    def _search(self, z: Tensor, top: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        found: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] = self._index.search(self._single(z), top)
        return found

    def _single(self, z: Tensor) -> np.ndarray[Any, Any]:
        """Convert to float32 for faiss, centred because digits would be lost far from the origin."""
        return np.ascontiguousarray(((z - self._origin) / self._unit).detach().cpu().numpy(), dtype=np.float32)

    def extend(self, z: Tensor, f: Tensor) -> Tensor:
        """Return the mean of f, known at the points, over those nearest to each of z."""
        _, found = self._search(z, self.n_neighbors)
        return f[torch.from_numpy(found.clip(0))].mean(1)  # HNSW marks missing results by -1


class NeighbourOperator(MatrixOperator):
    """T of a neighbour graph; restricted to some points, that of their own neighbour graph."""

    def __init__(self, graph: NeighbourGraph) -> None:
        super().__init__(graph.x, graph.gram().to(graph.x.device), graph.degree / graph.degree.sum(), graph.extend)
        self.n_neighbors, self.components = graph.n_neighbors, graph.components()

    def restrict(self, rows: Tensor) -> NeighbourOperator:
        """Return T over some of the points, with proportionally fewer neighbours each."""
        count = round(self.n_neighbors * len(rows) / len(self.x))
        return NeighbourOperator(NeighbourGraph(self.x[rows], min(max(count, 1), len(rows) - 1)))


def _index(rows: np.ndarray[Any, Any]) -> Any:
    import faiss

    if len(rows) <= EXACT:
        index: Any = faiss.IndexFlatL2(rows.shape[1])
    else:
        index = faiss.IndexHNSWFlat(rows.shape[1], LINKS)
        index.hnsw.efSearch = EFFORT
    index.add(rows)
    return index


def _without_self(
    found: np.ndarray[Any, Any], count: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return edges (i, j) to the first `count` found neighbours that are other points, and their positions.

    Among copies of a point, the point itself need not come first, or at all; HNSW marks missing results by -1.
    """
    other = (found != np.arange(len(found))[:, None]) & (found >= 0)
    kept = other & (np.cumsum(other, 1) <= count)
    rows, places = np.nonzero(kept)
    return rows.astype(np.int64), found[rows, places].astype(np.int64), kept
