"""Graphs with features, from files, arrays and the objects of other libraries."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.core.tensors import as_tensor, plain_numbers
from eigenmap.data.graphs.adjacency import Adjacency, Directed, SelfLoops, Tick, build_adjacency, check_edges
from eigenmap.networks.sparse import SparseRows


@dataclass(frozen=True)
class Graph:
    """Nodes with features, and edges between them.

    Attributes:
        x: features, (n, d) dense or sparse.
        edge_index: (2, E) node numbers, or None if `adjacency` is given.
        edge_weight: (E,) positive weights, or None if all are 1.
        y: (n,) int64 class numbers, -1 for none; None without labels.
        splits: "train", "validation" and "test" node numbers, if there are any.
        adjacency: the edges as an adjacency, if already built.

    """

    x: Tensor | SparseRows
    edge_index: Tensor | None = None
    edge_weight: Tensor | None = None
    y: Tensor | None = None
    splits: Mapping[str, Tensor] = field(default_factory=dict)
    adjacency: Adjacency | None = None

    def __post_init__(self) -> None:
        for name in ("x", "edge_index"):
            value = getattr(self, name)
            if not isinstance(value, Tensor | SparseRows | None):
                raise EigenmapError(
                    f"{name} must be a tensor, not {type(value).__name__}; load_graph takes arrays and files."
                )
        n = check_features(self.x)
        if self.adjacency is not None:
            if self.adjacency.n_nodes != n:
                raise EigenmapError(f"There are {n:,} rows of features for {self.adjacency.n_nodes:,} nodes.")
        elif self.edge_index is None:
            raise EigenmapError("A graph needs edge_index, the list of its edges.")
        else:
            check_edges(self.edge_index, n, self.edge_weight)
        _check_labels(n, self.y, self.splits)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.x)

    @property
    def n_features(self) -> int:
        """Number of features per node."""
        return self.x.shape[1]

    def walk(
        self, directed: Directed = "symmetrise", self_loops: SelfLoops = "remove", progress: Tick | None = None
    ) -> Adjacency:
        """Return the edges as a random walk sees them; `progress` is called as progress(done, total) meanwhile."""
        if self.adjacency is not None:
            if directed != "symmetrise" or self_loops != "remove":
                raise EigenmapError("The edges of this graph are stored as symmetric and without self-loops.")
            return self.adjacency
        assert self.edge_index is not None
        return build_adjacency(self.edge_index, len(self), self.edge_weight, directed, self_loops, progress)

    def digest(self, walk: Adjacency) -> str:
        """Return a digest of some edges and features that distinguishes this graph from others of its size."""

        def spread(count: int, most: int) -> Tensor:
            return torch.linspace(0, count - 1, min(count, most), dtype=torch.float64).long()

        entries = spread(walk.n_entries, 100_000).to(walk.device)
        rows = self.x[spread(len(self), 1000).to(self.x.device)]
        parts: list[Tensor | None] = [walk.rows_of(entries), walk.indices[entries], walk.weights(entries)]
        parts += [rows.offsets, rows.columns, rows.values] if isinstance(rows, SparseRows) else [rows]
        content = hashlib.sha256()
        for part in parts:
            if part is not None:
                content.update(part.cpu().double().numpy().tobytes())
        return content.hexdigest()[:16]


@dataclass(frozen=True)
class Nodes:
    """Nodes without their edges: features, labels and splits as in a `Graph`. This is all that a model sees."""

    x: Tensor | SparseRows
    y: Tensor | None = None
    splits: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_labels(check_features(self.x), self.y, self.splits)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.x)


def _check_labels(n: int, y: Tensor | None, splits: Mapping[str, Tensor]) -> None:
    if y is not None and y.shape != (n,):
        raise EigenmapError(f"There must be one label per node ({n:,}), not an array of {tuple(y.shape)}.")
    for name, nodes in splits.items():
        if nodes.ndim != 1 or (len(nodes) and not 0 <= int(nodes.min()) <= int(nodes.max()) < n):
            raise EigenmapError(f"The {name} split must be a list of node numbers from 0 to {n - 1}.")


def check_features(x: Tensor | SparseRows) -> int:
    """Return the number of nodes with features; raise if the features are not a finite matrix."""
    if isinstance(x, Tensor) and (x.ndim != 2 or x.is_complex()):
        raise EigenmapError(f"Features must be a matrix (nodes, features), not an array of shape {tuple(x.shape)}.")
    n, d = x.shape
    if n == 0 or d == 0:
        raise EigenmapError(f"The graph is empty: its features are {n} x {d}.")
    values = x if isinstance(x, Tensor) else x.values
    # In strips: a mask of all features might not fit into memory if they are mapped.
    for start in range(0, 0 if values is None else len(values), 1 << 16):
        strip = values[start : start + (1 << 16)]  # type: ignore[index]
        finite = strip.float().isfinite()  # networks compute in float32
        if not bool(finite.all()):
            row = start + int((~finite.reshape(len(finite), -1).all(1)).int().argmax())
            where = f", the first in row {row}" if isinstance(x, Tensor) else ""
            if bool(strip.isfinite().all()):
                raise EigenmapError(f"The features contain numbers too large for float32{where}; scale them down.")
            raise EigenmapError(f"The features contain NaN or infinity{where}; remove or impute them.")
    return n


def load_graph(source: object, x: object = None, progress: Tick | None = None) -> Graph:
    """Load a graph from a file, a folder, or an object of another library.

    Args:
        source: a path to an .npz file or folder, or to an OGB data set as downloaded; "ogb:NAME" or "pyg:NAME" for a
            public data set; a `Graph`; a tuple (x, edge_index) or (x, edge_index, edge_weight) of arrays; a PyG `Data`;
            a scipy sparse adjacency matrix; a networkx graph.
        x: the features, if the source has none (networkx, scipy): an array, a tensor or a scipy sparse matrix.
        progress: called as progress(done, total) while a file or folder is read.

    Example:
        >>> graph = load_graph((np.eye(3), [[0, 1], [1, 2]]))
        >>> len(graph)
        3

    """
    from eigenmap.data.graphs import files as graph_files
    from eigenmap.data.graphs import ogb_folder
    from eigenmap.data.graphs import sources as graph_sources

    if isinstance(source, (Graph, str, Path)) and x is not None:
        raise EigenmapError("x= is for graphs without features (scipy, networkx); a file or a Graph has its own.")
    if isinstance(source, Graph):
        return source
    if isinstance(source, (str, Path)):
        library, _, name = str(source).partition(":")
        if name and library in ("ogb", "pyg"):
            return graph_sources.load_ogb(name) if library == "ogb" else graph_sources.load_pyg(name)
        if ogb_folder.is_ogb_folder(str(source)):
            return ogb_folder.read_ogb_folder(Path(source))
        return graph_files.read_graph(Path(source), progress)
    return graph_sources.from_object(source, x)


def as_features(x: object) -> Tensor | SparseRows:
    """Convert features of any kind: arrays, tensors, nested lists, sparse matrices of scipy or torch."""
    if isinstance(x, SparseRows):
        return x
    if hasattr(x, "edge_index"):
        raise EigenmapError("Features are expected, not a graph: pass its x.")
    if hasattr(x, "tocsr"):
        _check_sparse(x)
        return SparseRows.of(plain_numbers(x, "Features"))
    if isinstance(x, Tensor) and x.layout is not torch.strided:
        return SparseRows.of_tensor(x)
    return as_tensor(x, "Features")


def _check_sparse(matrix: Any) -> None:
    """Refuse a scipy matrix with inconsistent parts, beyond which compiled code would read."""
    if matrix.ndim != 2:
        raise EigenmapError(f"Features must be a matrix (nodes, features), not an array of shape {matrix.shape}.")
    n, d = matrix.shape
    if matrix.format == "coo" and not (columns_fit(as_tensor(matrix.row), n) and columns_fit(as_tensor(matrix.col), d)):
        raise EigenmapError("The sparse features are damaged: they contain a row or column out of range.")
    try:
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
    except ValueError as error:
        raise EigenmapError(f"The sparse features are damaged: {error}.") from None


def as_classes(y: Any) -> Tensor | None:
    """Return class numbers (n,) int64 from (n,) or (n, 1), -1 for NaN; None if the numbers are not integers."""
    if np.asarray(y).dtype.kind in "SU":
        raise EigenmapError("y contains names; number the classes: np.unique(y, return_inverse=True)[1].")
    numbers = as_tensor(y, "y").cpu()
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if not numbers.is_floating_point():
        return numbers.long()
    numbers = torch.where(numbers.isnan(), -1, numbers)
    whole = numbers.isfinite() & (numbers == numbers.round())
    return numbers.long() if bool(whole.all()) else None


def as_nodes(part: Any, name: str, n_nodes: int) -> Tensor:
    """Return node numbers from a list of them or from a mask of all nodes."""
    numbers = as_tensor(part, name)
    if numbers.dtype == torch.bool:
        if numbers.shape != (n_nodes,):
            raise EigenmapError(f"{name} must be a mask of all {n_nodes:,} nodes, not of shape {tuple(numbers.shape)}.")
        return numbers.nonzero()[:, 0]
    if numbers.is_floating_point() and numbers.numel():
        raise EigenmapError(f"{name} must be node numbers or a mask, not {numbers.dtype}.")
    if n_nodes > 2 and numbers.shape == (n_nodes,) and bool(((numbers == 0) | (numbers == 1)).all()):
        raise EigenmapError(f"{name} contains 0 or 1 for every node; if it is a mask, make it boolean.")
    return numbers.long()


def columns_fit(columns: Tensor, width: int) -> bool:
    """Tell whether all columns (or rows) of sparse features are in range."""
    return not len(columns) or 0 <= int(columns.min()) <= int(columns.max()) < width
