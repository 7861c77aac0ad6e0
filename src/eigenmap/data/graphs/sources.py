"""Graphs from the objects and data sets of other libraries, each imported only when needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.core.tensors import as_tensor
from eigenmap.data.graphs.graph import Graph, as_classes, as_features, as_nodes


def from_object(source: Any, x: object = None) -> Graph:
    """Convert anything other than a path to a graph: see `load_graph`."""
    if isinstance(source, (tuple, list)) and len(source) in (2, 3):
        if x is not None:
            raise EigenmapError("Features were given twice, in (x, edge_index) and as x=; pass them once.")
        return from_arrays(*source)
    if hasattr(source, "edge_index"):
        return from_pyg(source, x)
    if hasattr(source, "tocoo"):
        return from_scipy(source, x)
    if hasattr(source, "adjacency") and hasattr(source, "nodes"):
        return from_networkx(source, x)
    raise EigenmapError(
        "A graph must be a path, (x, edge_index), a PyG Data, a scipy sparse matrix or a networkx graph, "
        f"not {type(source).__name__}."
    )


def from_arrays(x: object, edge_index: object, edge_weight: object = None) -> Graph:
    """Build a graph from features and a list of edges or a sparse adjacency matrix."""
    if hasattr(edge_index, "tocoo"):
        if edge_weight is not None:
            raise EigenmapError("The entries of an adjacency matrix are its weights: leave edge_weight out.")
        return from_scipy(edge_index, x)
    edges = as_tensor(edge_index, "edge_index")
    if edges.numel() == 0:  # an empty list may have any type and shape
        edges = torch.empty(2, 0, dtype=torch.int64)
    return Graph(as_features(x), edges, None if edge_weight is None else as_tensor(edge_weight, "edge_weight"))


def from_pyg(data: Any, x: object = None) -> Graph:
    """Convert a PyG `Data`, with its masks, weights, and labels if there is one class number per node."""
    features = getattr(data, "x", None) if x is None else x
    if features is None:
        raise EigenmapError("The PyG Data has no features x; pass them as x=.")
    if data.edge_index is None:
        raise EigenmapError("The PyG Data has no edge_index.")
    rows = as_features(features).to("cpu")
    weight = getattr(data, "edge_weight", None)
    weight = None if weight is None else as_tensor(weight, "edge_weight").reshape(-1).cpu()
    y = getattr(data, "y", None)
    labels = as_classes(y) if isinstance(y, Tensor) and y.shape in ((len(rows),), (len(rows), 1)) else None
    names = {"train": "train_mask", "validation": "val_mask", "test": "test_mask"}
    splits = {
        split: _masked(getattr(data, name), name, len(rows))
        for split, name in names.items()
        if getattr(data, name, None) is not None
    }
    return Graph(rows, as_tensor(data.edge_index, "edge_index").cpu(), weight, labels, splits)


def _masked(mask: Any, name: str, n_nodes: int) -> Tensor:
    """Return the nodes of a PyG mask; of ten splits with masks (n, 10), the first is the one usually reported."""
    values = as_tensor(mask, name).cpu()
    values = values[:, 0] if values.ndim == 2 else values
    if bool(((values != 0) & (values != 1)).any()):
        raise EigenmapError(f"{name} of the PyG Data must be a boolean mask, not node numbers.")
    return as_nodes(values.bool(), name, n_nodes)


def from_scipy(matrix: Any, x: object = None) -> Graph:
    """Convert a sparse adjacency matrix, whose entries are weights unless all are equal."""
    if x is None:
        raise EigenmapError("An adjacency matrix has no features; pass them as x=.")
    if matrix.shape[0] != matrix.shape[1]:
        raise EigenmapError(f"An adjacency matrix must be square, not {matrix.shape[0]} x {matrix.shape[1]}.")
    features = as_features(x)
    if len(features) != matrix.shape[0]:
        raise EigenmapError(f"There are {len(features):,} rows of features for {matrix.shape[0]:,} nodes.")
    if matrix.dtype.kind not in "biuf":
        raise EigenmapError(f"The entries of an adjacency matrix must be real numbers, not {matrix.dtype}.")
    coo = matrix.tocoo(copy=True)
    coo.sum_duplicates()  # as in the other formats
    stored = coo.data != 0
    edges = np.stack([coo.row[stored], coo.col[stored]]).astype(np.int64)
    values = coo.data[stored]
    weighted = len(values) > 0 and bool((values != values[0]).any() or not 0 < values[0] < np.inf)
    return Graph(features, torch.from_numpy(edges), as_tensor(values.astype(np.float64)) if weighted else None)


def from_networkx(graph: Any, x: object = None) -> Graph:
    """Convert a networkx graph: nodes in its order, features from `x` or the node attribute "x".

    If some edges have a weight, the others have 1, as usual in networkx.
    """
    places = {node: place for place, node in enumerate(graph.nodes)}
    if x is None:
        rows = [values.get("x") for _, values in graph.nodes(data=True)]
        if not rows or any(row is None for row in rows):
            raise EigenmapError(
                'The networkx graph needs features: pass them as x=, or give every node an attribute "x".'
            )
        rows = [np.atleast_1d(row) for row in rows]
        if len({row.shape for row in rows}) > 1:
            raise EigenmapError('The attribute "x" must have the same length at every node of the networkx graph.')
        x = np.stack(rows)
    features = as_features(x)
    if len(features) != len(places):
        raise EigenmapError(f"There are {len(features):,} rows of features for {len(places):,} nodes.")
    edges = torch.tensor([[places[a], places[b]] for a, b in graph.edges()], dtype=torch.int64).reshape(-1, 2).T
    given = [values.get("weight") for *_, values in graph.edges(data=True)]
    weights = None
    if any(weight is not None for weight in given):
        weights = as_tensor([1.0 if weight is None else weight for weight in given], "weight").double()
    if not graph.is_directed():  # an edge listed once leads in both directions, a self-loop in one
        back = edges[0] != edges[1]
        edges = torch.cat([edges, edges[:, back].flip(0)], dim=1)
        weights = None if weights is None else torch.cat([weights, weights[back]])
    return Graph(features, edges, weights)


def load_ogb(name: str, root: str = "dataset") -> Graph:
    """Load a node data set of the Open Graph Benchmark, "ogbn-products" or "ogbn-arxiv", with its official split.

    Needs the package `ogb`, which downloads the data. The official evaluator of both is plain accuracy.

    Example:
        >>> graph = load_ogb("ogbn-arxiv")  # doctest: +SKIP

    """
    try:
        from ogb.nodeproppred import NodePropPredDataset
    except ImportError as error:
        raise EigenmapError(
            "The data sets of OGB need its package: pip install 'eigenmap[ogb]', or extract one and give its folder."
        ) from error
    with _fetching(f"ogb:{name}"):
        data = NodePropPredDataset(name=name, root=root)
    parts, labels = data[0]
    if parts.get("node_feat") is None or labels.shape[1:] != (1,):
        raise EigenmapError(f"{name} lacks features or one class per node; ogbn-arxiv and ogbn-products have both.")
    split = data.get_idx_split()
    names = {"train": "train", "validation": "valid", "test": "test"}
    return Graph(
        as_features(parts["node_feat"]),
        as_tensor(parts["edge_index"]),
        None,
        as_classes(labels),
        {ours: as_tensor(split[theirs]).long() for ours, theirs in names.items()},
    )


def load_pyg(name: str, root: str = "dataset") -> Graph:
    """Load a node data set of PyG: Cora, CiteSeer, PubMed, Computers, Photo, CS or Physics.

    Needs the package `torch_geometric`, which downloads the data.

    Example:
        >>> graph = load_pyg("Cora")  # doctest: +SKIP

    """
    try:
        from torch_geometric.datasets import Amazon, Coauthor, Planetoid
    except ImportError as error:
        raise EigenmapError("The data sets of PyG need its package: pip install torch_geometric.") from error
    homes = {
        **dict.fromkeys(["Cora", "CiteSeer", "PubMed"], Planetoid),
        **dict.fromkeys(["Computers", "Photo"], Amazon),
        **dict.fromkeys(["CS", "Physics"], Coauthor),
    }
    if name not in homes:
        raise EigenmapError(f"Unknown PyG data set {name!r}: choose one of {', '.join(homes)}.")
    with _fetching(f"pyg:{name}"):
        data = homes[name](root=root, name=name)[0]
    return from_pyg(data)


@contextmanager
def _fetching(name: str) -> Iterator[None]:
    """Turn download errors of other libraries into one sentence."""
    try:
        yield
    except (OSError, ValueError, RuntimeError, KeyError, SystemExit) as error:
        reason = str(error).strip().rstrip(".") or type(error).__name__
        raise EigenmapError(f"The data set {name} cannot be fetched: {reason}.") from error
