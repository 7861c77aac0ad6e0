r"""Neighbourhoods: codes of some nodes of a graph, computed only from the stored states of their neighbours.

The states h^0, h^1, ... are known for all nodes except a set R: new nodes, and possibly stored nodes linked to them.
With B the neighbours of R outside R, the rows of R are

    h^l_R = step(S_RR h^(l-1)_R + S_RB h^(l-1)_B, h^0_R)

while B keeps its states. This is exact for one hop. For more hops it is the result that holds if the states outside R
do not change.

    around = new_nodes(new_edges(edge_index, stored, len(own)), stored, len(own))
    states = around.states(propagation, own, stored.states(around.around))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.core.tensors import as_tensor
from eigenmap.data.graphs.adjacency import Adjacency, build_adjacency
from eigenmap.data.graphs.graph import as_nodes
from eigenmap.relations.propagation import Matrix, Propagation, Smoothing, unit

Numbers = npt.NDArray[np.int64]
DENSE = 1 << 14
"""Maximum number of entries of a matrix that is kept dense, which is faster for a few nodes."""


class StoredNodes(Protocol):
    """Interface of a stored graph: everything needed to compute codes of new nodes with edges into it."""

    @property
    def path(self) -> Path:
        """Folder of the stored graph."""

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the model that made the codes."""

    @property
    def propagation(self) -> Propagation:
        """Propagation of the codes."""

    @property
    def n_components(self) -> int:
        """Length of the codes."""

    @property
    def loop(self) -> float:
        """Weight of the self-loop at every node."""

    @property
    def weighted(self) -> bool:
        """Whether the edges have weights."""

    def __len__(self) -> int:
        """Return the number of stored nodes."""

    def degrees(self, nodes: Numbers) -> npt.NDArray[np.float64]:
        """Return the degrees of nodes, including the self-loop."""

    def states(self, nodes: Numbers) -> list[Matrix]:
        """Return the states of nodes needed by each hop, in order."""


class Edges:
    """A list of edges (2, E) with weights or None."""

    def __init__(self, index: Tensor, weights: Tensor | None) -> None:
        self.index, self.weights = index, weights

    @classmethod
    def of(cls, edges: object, n_nodes: int, keep_weights: bool = False) -> Edges:
        """Convert an array (2, E), a pair of such an array and weights, or a square sparse matrix.

        Entries of a matrix that are all equal are no weights, unless these are to be kept.
        """
        if hasattr(edges, "tocoo"):
            return cls._of_matrix(edges, n_nodes, keep_weights)
        index, weights = edges if isinstance(edges, tuple) and len(edges) == 2 and _is_list(edges[0]) else (edges, None)
        places = as_tensor(index, "edges").cpu()
        if places.numel() == 0:
            places = torch.empty(2, 0, dtype=torch.int64)
        _check_places(places, n_nodes)
        return cls(places.long(), None if weights is None else as_tensor(weights, "the weights of edges").cpu())

    @classmethod
    def _of_matrix(cls, matrix: Any, n_nodes: int, keep_weights: bool) -> Edges:
        if tuple(matrix.shape) != (n_nodes, n_nodes):
            found = " x ".join(map(str, matrix.shape))
            raise EigenmapError(f"The adjacency matrix must be {n_nodes} x {n_nodes}, one row per node, not {found}.")
        if matrix.dtype.kind not in "biuf":
            raise EigenmapError(f"The entries of the adjacency matrix must be real numbers, not {matrix.dtype}.")
        coo = matrix.tocoo(copy=True)
        coo.sum_duplicates()  # as when a graph is loaded
        stored = coo.data != 0
        index = torch.from_numpy(np.stack([coo.row[stored], coo.col[stored]]).astype(np.int64))
        values = coo.data[stored].astype(np.float64)
        differ = len(values) > 0 and bool((values != values[0]).any() or not 0 < values[0] < np.inf)
        return cls(index, torch.from_numpy(values) if keep_weights or differ else None)

    def walk(self, n_nodes: int) -> Adjacency:
        """Return the symmetric adjacency matrix without self-loops; it may be empty."""
        apart = self.index[0] != self.index[1]
        if not bool(apart.any()):
            return Adjacency(torch.zeros(n_nodes + 1, dtype=torch.int64), torch.empty(0, dtype=torch.int32))
        return build_adjacency(self.index, n_nodes, self.weights)


def _is_list(value: object) -> bool:
    """Tell whether this is an array of edges rather than a list of their ends."""
    return getattr(value, "ndim", None) == 2 or (isinstance(value, list | tuple) and len(value) == 2)


def _check_places(places: Tensor, n_nodes: int) -> None:
    if places.ndim != 2 or len(places) != 2 or places.is_floating_point() or places.dtype == torch.bool:
        found = f"{str(places.dtype).removeprefix('torch.')} of shape {tuple(places.shape)}"
        raise EigenmapError(
            f"edges must be whole numbers (2, edges) or a square sparse matrix, not {found}.{_remedy(places, n_nodes)}"
        )
    if places.numel() and not 0 <= int(places.min()) <= int(places.max()) < n_nodes:
        wrong = int(places.min()) if int(places.min()) < 0 else int(places.max())
        raise EigenmapError(f"edges contain node {wrong}, but nodes are numbered 0 to {n_nodes - 1}.")


def _remedy(places: Tensor, n_nodes: int) -> str:
    """Return advice for the usual mistakes: a dense adjacency matrix, and one edge per row."""
    if tuple(places.shape) == (n_nodes, n_nodes):
        return " For an adjacency matrix, give scipy.sparse.csr_matrix(edges)."
    return " For one edge per row, give edges.T." if places.ndim == 2 and places.shape[1] == 2 else ""


def missing_nodes(missing: object, n_nodes: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the nodes whose features are unknown, from a mask, node numbers, or None."""
    mask = np.zeros(n_nodes, np.bool_)
    if missing is None:
        return mask
    nodes = as_nodes(missing, "missing", n_nodes).cpu().numpy()
    if nodes.size and not 0 <= nodes.min() <= nodes.max() < n_nodes:
        raise EigenmapError(f"missing must be node numbers from 0 to {n_nodes - 1}, or a mask of {n_nodes} nodes.")
    mask[nodes] = True
    return mask


def require_known(y: Matrix, missing: npt.NDArray[np.bool_], first: int = 0) -> None:
    """Refuse a node without features that has no neighbour with features within reach."""
    if not missing.any():
        return
    unknown = missing & (np.abs(y).max(axis=1, initial=0.0) == 0)
    if unknown.any():
        node = first + int(unknown.argmax())
        raise EigenmapError(
            f"Node {node} has neither features nor an edge to a node with features; add one of them, or leave it out."
        )


def filled(smooth: Callable[[Matrix], Matrix], own: Matrix, missing: npt.NDArray[np.bool_]) -> Matrix:
    """Return the nodes' own codes, or for nodes without features the average of their neighbours' codes."""
    if not missing.any():
        return own
    return np.where(missing[:, None], unit(smooth(own)), own)


@dataclass(frozen=True)
class Neighbourhood:
    """A set of nodes R, their neighbours B outside R, and the rows of S between them.

    Attributes:
        nodes: (r,) numbers of R.
        around: (b,) numbers of B, sorted.
        inside: S_RR (r, r), sparse unless it is small.
        outside: S_RB (r, b), likewise.

    """

    nodes: Numbers
    around: Numbers
    inside: Any
    outside: Any

    @classmethod
    def of(
        cls,
        nodes: Numbers,
        rows: Numbers,
        columns: Numbers,
        weights: npt.NDArray[np.float64],
        degrees: Callable[[Numbers], npt.NDArray[np.float64]],
        loop: float,
    ) -> Neighbourhood:
        """Build it from all edges (row in R, any column), each once, and the degrees of nodes."""
        order = np.argsort(nodes)
        ordered = nodes[order]

        def place(numbers: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
            found = np.searchsorted(ordered, numbers).clip(max=max(len(ordered) - 1, 0))
            return order[found], ordered[found] == numbers

        r, _ = place(rows)
        c, is_inside = place(columns)
        around = np.unique(columns[~is_inside])
        b = np.searchsorted(around, columns[~is_inside])
        own, others = (1 / np.sqrt(degrees(part)) for part in (nodes, around))
        every = np.arange(len(nodes))
        near, near_columns = np.concatenate([r[is_inside], every]), np.concatenate([c[is_inside], every])
        values = own[near] * np.concatenate([weights[is_inside], np.full(len(nodes), loop)]) * own[near_columns]
        far = r[~is_inside]
        # Scaled before the matrices are made: for a single node, products of sparse matrices would take longer.
        scaled = own[far] * weights[~is_inside] * others[b]
        inside = _matrix(values, near, near_columns, (len(nodes), len(nodes)))
        return cls(nodes, around, inside, _matrix(scaled, far, b, (len(nodes), len(around))))

    def states(self, way: Propagation, own: Matrix, boundary: Sequence[Matrix]) -> list[Matrix]:
        """Return h^0, h^1, ... of R, from h^0 of R and the states of B for each hop."""
        h, found = own, [own]
        for hop in range(way.hops):
            if hop == 0 or boundary[hop] is not boundary[hop - 1]:  # the states of PageRank are those of every hop
                outside = self.outside @ boundary[hop]
            h = way.step(np.asarray(self.inside @ h + outside, np.float32), own)
            found.append(h)
        return found

    def propagated(self, way: Propagation, own: Matrix, boundary: Sequence[Matrix]) -> Matrix:
        """Return the propagated codes y of R, from the same."""
        if way.way != "pagerank" or len(self.nodes) != 1:
            return way.combine(self.states(way, own, boundary))
        # For one node, h^l = c h^(l-1) + b with numbers c and b that are those of every hop: a geometric series.
        a, s = way.restart, float(self.inside[0, 0])
        c = (1 - a) * s
        rest = (1 - c**way.hops) / (1 - c)
        y = (c**way.hops + rest * a) * own + (rest * (1 - a)) * (self.outside @ boundary[0])
        return np.asarray(y, np.float32)

    def smooth(self, h: Matrix, boundary: Matrix) -> Matrix:
        """Return (S h)_R."""
        return np.asarray(self.inside @ h + self.outside @ boundary, np.float32)


def _matrix(values: npt.NDArray[np.float64], rows: Numbers, columns: Numbers, shape: tuple[int, int]) -> Any:
    """Return a float32 matrix from its entries, each of which is given once."""
    from scipy.sparse import csr_matrix

    if shape[0] * shape[1] > DENSE:
        return csr_matrix((values.astype(np.float32), (rows, columns)), shape=shape)
    dense = np.zeros(shape, np.float32)
    dense[rows, columns] = values
    return dense


def new_edges(edges: object, stored: StoredNodes, count: int) -> Edges:
    """Convert the edges of `count` new nodes, which are numbered after the stored ones.

    They need weights if the stored edges have weights, and only then.
    """
    n = len(stored)
    new = Edges.of(edges, n + count, keep_weights=stored.weighted)
    between = (new.index.numpy() < n).all(0)
    if between.any():
        a, b = new.index[:, int(between.argmax())].tolist()
        raise EigenmapError(
            f"The edge ({a}, {b}) joins two stored nodes; give only edges of new nodes ({n} and above)."
        )
    if new.index.shape[1] and stored.weighted != (new.weights is not None):
        have = "have weights; give new edges theirs" if stored.weighted else "have no weights; leave them out"
        raise EigenmapError(f"The edges of {stored.path} {have}.")
    return new


def new_nodes(edges: Edges, stored: StoredNodes, count: int) -> Neighbourhood:
    """Return the neighbourhood of `count` new nodes, which are numbered after the stored ones."""
    n = len(stored)
    if count == 1 and edges.weights is None:
        return _one_new_node(edges, stored)
    numbers, rows, columns, weights = _compact(edges, n, count)
    added = np.bincount(rows, weights, minlength=len(numbers))
    known = numbers[numbers < n]

    def degrees(nodes: Numbers) -> npt.NDArray[np.float64]:
        places = np.searchsorted(numbers, nodes)
        before = np.full(len(nodes), stored.loop)
        is_stored = nodes < n
        before[is_stored] = stored.degrees(nodes[is_stored])
        return before + added[places]

    ours = rows >= len(known)
    return Neighbourhood.of(
        np.arange(n, n + count), numbers[rows[ours]], numbers[columns[ours]], weights[ours], degrees, stored.loop
    )


def _one_new_node(edges: Edges, stored: StoredNodes) -> Neighbourhood:
    """Return the neighbourhood of a single new node; the general way would take most of the time of its code."""
    ends: Numbers = edges.index.numpy()
    around = np.unique(ends[ends < len(stored)])
    degree = stored.loop + len(around)
    outside = 1 / np.sqrt(degree * (stored.degrees(around) + 1))
    inside = np.full((1, 1), stored.loop / degree, np.float32)
    return Neighbourhood(np.array([len(stored)]), around, inside, outside[None].astype(np.float32))


def _compact(edges: Edges, first: int, count: int) -> tuple[Numbers, Numbers, Numbers, npt.NDArray[np.float64]]:
    """Return the nodes that occur, sorted, and the entries of the adjacency between them by position, with weights.

    Nodes from `first` on occur in any case.
    """
    new = np.arange(first, first + count)
    if edges.weights is None:
        # The same entries as those of `build_adjacency`, which would take most of the time for a single node.
        a, b = edges.index.numpy()
        numbers = np.unique(np.concatenate([a, b, new]))
        a, b = np.searchsorted(numbers, a), np.searchsorted(numbers, b)
        keys = np.concatenate([a * len(numbers) + b, b * len(numbers) + a])[np.tile(a != b, 2)]
        rows, columns = np.divmod(np.unique(keys), len(numbers))
        return numbers, rows, columns, np.ones(len(rows))
    named = torch.unique(torch.cat([edges.index.flatten(), torch.from_numpy(new)]))
    walk = Edges(torch.searchsorted(named, edges.index.contiguous()), edges.weights).walk(len(named))
    rows, columns = walk.edges().numpy()
    return named.numpy(), rows, columns, walk.weights(torch.arange(walk.n_entries)).numpy()


def smoothing(edges: object, n_nodes: int) -> Smoothing:
    """Return S of the edges between all nodes."""
    return Smoothing.of(Edges.of(edges, n_nodes).walk(n_nodes))
