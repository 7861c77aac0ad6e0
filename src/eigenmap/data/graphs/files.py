r"""Graph files.

The format is an .npz file, or a folder of .npy files of the same names, which are memory-mapped:

- `edge_index` (2, E) integers: from node, to node; undirected edges in both directions. `edge_weight` (E,) is
optional.
- `x` (n, d): one row of features per node; or, sparse, the CSR parts `x_indptr`, `x_indices`, `x_shape` and, unless all
values are 1, `x_data`.
- `y` (n,) class numbers, -1 for none; optional, like `train_idx`, `val_idx`, `test_idx` (node numbers or masks).
- In a folder, `indptr` and `indices` (and `weights`, a running sum) may replace `edge_index`: a symmetric CSR matrix
without repetitions and self-loops, as written by `save_graph`. Edges are then sampled from disk.

Nothing in either is executed when it is opened (`allow_pickle=False`).

    graph = load_graph("cora.npz")
    save_graph(graph, "cora/")                 # for memory-mapped use
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
import torch
from numpy.lib.format import MAGIC_PREFIX
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_write
from eigenmap.core.folders import staged_folder
from eigenmap.core.tensors import as_tensor
from eigenmap.data.graphs.adjacency import Adjacency, Tick
from eigenmap.data.graphs.graph import (
    Graph,
    Nodes,
    as_classes,
    as_features,
    as_nodes,
    columns_fit,
    load_graph,
)
from eigenmap.data.graphs.scipy_files import read_scipy
from eigenmap.data.npy import open_npy, open_npz
from eigenmap.networks.sparse import SparseRows

SPLITS = {"train": "train_idx", "validation": "val_idx", "test": "test_idx"}
"""Names of the splits and of their arrays in a file."""
EDGE_ARRAYS = ("edge_index", "edge_weight", "indptr", "indices", "weights")
FEATURE_ARRAYS = ("x", "x_indptr", "x_indices", "x_data", "x_shape")
MISSING = "missing_idx"
"""Nodes whose features are unknown, as numbers or as a mask; their rows of `x` are ignored."""
ARRAYS = (*EDGE_ARRAYS, *FEATURE_ARRAYS, "y", MISSING, *SPLITS.values())
"""All array names of a graph file."""


def read_features(path: str | Path) -> Tensor | SparseRows:
    """Read node features from a file: an .npy matrix (memory-mapped), a scipy .npz matrix, or a graph file."""
    path = Path(path)
    if path.is_dir() or not path.exists():
        return read_nodes(path).x
    with _about(path):
        if not _is_zip(path):
            return _npy_rows(path)
        with open_npz(path) as arrays:
            if {"format", "shape", "data"} <= set(arrays.names):
                return read_scipy(arrays)
    return read_nodes(path).x


def read_nodes(source: str | Path) -> Nodes:
    """Read the nodes of a graph file, folder or public data set, without edges."""
    if str(source).partition(":")[0] in ("ogb", "pyg"):
        graph = load_graph(source)
        return Nodes(graph.x, graph.y, graph.splits)
    path = Path(source)
    with _about(path), _arrays(path) as (names, array):
        return Nodes(*_node_arrays(path, names, array))


@dataclass(frozen=True)
class NewNodes:
    """New nodes with edges into a stored graph.

    Attributes:
        x: features of the new nodes.
        edges: (edge_index, edge_weight or None); new nodes are numbered after the stored ones.
        missing: new nodes without features.

    """

    x: Tensor | SparseRows
    edges: tuple[Tensor, Tensor | None]
    missing: Tensor | None


def read_new_nodes(path: str | Path, first: int, n_features: int) -> NewNodes:
    """Read new nodes, numbered from `first`, from a file with `edge_index` and, if any features are known, `x`."""
    path = Path(path)
    with _about(path), _arrays(path) as (names, array):
        if "edge_index" not in names:
            raise EigenmapError(f"{path} has no edge_index; new nodes need edges into the stored graph.")
        index = as_tensor(array("edge_index"), "edge_index")
        weights = as_tensor(array("edge_weight"), "edge_weight") if "edge_weight" in names else None
        if {"x", "x_indptr"} & names:
            x, _, _ = _node_arrays(path, names - {"y", *SPLITS.values()}, array)
            missing = as_nodes(array(MISSING), MISSING, len(x)) if MISSING in names else None
            return NewNodes(x, (index, weights), missing)
        count = int(index.max()) + 1 - first if index.numel() else 0
        if count < 1:
            raise EigenmapError(f"{path} contains no new node; new nodes are numbered from {first}.")
        return NewNodes(torch.zeros(count, n_features), (index, weights), torch.arange(count))


def read_missing(source: str | Path) -> Tensor | None:
    """Read the nodes of a graph file or folder whose features are unknown; None if there are none."""
    if str(source).partition(":")[0] in ("ogb", "pyg"):
        return None
    path = Path(source)
    with _about(path), _arrays(path) as (names, array):
        return as_tensor(array(MISSING), MISSING) if MISSING in names else None


def save_graph(graph: Graph, path: str | Path) -> Path:
    """Write a graph as an .npz file, or (any other name) as a folder of .npy files for memory mapping.

    In the folder, edges are symmetric, without repetitions and self-loops, ready for sampling. An existing graph is
    replaced atomically; a folder with other content is refused.
    """
    path = Path(path)
    arrays: dict[str, Tensor | None] = {"y": graph.y, **{SPLITS[name]: graph.splits[name] for name in graph.splits}}
    if isinstance(graph.x, SparseRows):
        shape = torch.tensor(graph.x.shape)
        arrays |= {"x_indptr": graph.x.offsets, "x_indices": graph.x.columns, "x_data": graph.x.values}
        arrays["x_shape"] = shape
    else:
        arrays["x"] = graph.x
    folder = path.suffix != ".npz"
    if folder:
        walk = graph.walk()
        arrays |= {"indptr": walk.indptr, "indices": walk.indices, "weights": walk.cumulative}
    else:
        arrays |= dict(zip(("edge_index", "edge_weight"), edges_of(graph), strict=True))
    plain = {name: value.cpu().numpy() for name, value in arrays.items() if value is not None}
    try:
        if folder:
            _save_folder(path, plain)
        else:
            with atomic_write(path) as file:
                np.savez(file, **plain)  # type: ignore[arg-type]
    except OSError as error:
        raise EigenmapError(f"The graph cannot be written to {path}: {error.strerror}.") from error
    return path


def edges_of(graph: Graph) -> tuple[Tensor, Tensor | None]:
    """Return the list of edges and their weights, converting the adjacency if necessary."""
    if graph.edge_index is not None:
        return graph.edge_index, graph.edge_weight
    walk = graph.walk()
    weighted = walk.cumulative is not None
    return walk.edges(), walk.weights(torch.arange(walk.n_entries, device=walk.device)) if weighted else None


def _save_folder(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write a new folder and exchange the two, since the existing one may be the memory map being written."""
    _require_graph(path)
    with staged_folder(path, replace=True, check=_require_graph) as staging:
        for name, array in arrays.items():
            np.save(staging / f"{name}.npy", array)


def _require_graph(path: Path) -> None:
    """Refuse to replace anything but a graph."""
    ours = {f"{name}.npy" for name in ARRAYS}
    if path.exists() and (not path.is_dir() or any(file.name not in ours for file in path.iterdir())):
        raise EigenmapError(f"{path} contains something other than a graph; choose another name.")


def read_graph(path: Path, progress: Tick | None = None) -> Graph:
    """Read a graph in our own format."""
    with _about(path), _arrays(path) as (names, read):
        array = read if path.is_dir() else _counted(read, len(names), progress)
        x, y, splits = _node_arrays(path, names, array)
        adjacency, edge_index, edge_weight = None, None, None
        if {"indptr", "indices"} <= names:
            weights = as_tensor(array("weights"), "weights") if "weights" in names else None
            numbers = _list(path, "indptr", array), _list(path, "indices", array)
            adjacency = _stored_adjacency(path, *numbers, weights, progress)
        elif "edge_index" not in names:
            raise EigenmapError(f"{path} has no edge_index; docs/graphs.md describes the format of graph files.")
        else:
            edge_index = as_tensor(array("edge_index"), "edge_index")
            edge_weight = as_tensor(array("edge_weight"), "edge_weight") if "edge_weight" in names else None
        return Graph(x, edge_index, edge_weight, y, splits, adjacency)


@contextmanager
def _arrays(path: Path) -> Iterator[tuple[set[str], Callable[[str], Any]]]:
    """Yield the names of the arrays in a file or folder, and a function that reads one."""
    if path.is_dir():
        files = {file.stem: file for file in path.glob("*.npy")}
        # Copy on write: torch requires writable memory, and the file must not change.
        yield set(files), lambda name: open_npy(files[name], "c")
        return
    if not path.exists():
        raise EigenmapError(f"{path} does not exist.")
    if not _is_zip(path):
        raise EigenmapError(f"{path} is not a graph file: give an .npz file with edge_index and x.")
    with open_npz(path) as arrays:
        yield set(arrays.names), arrays.__getitem__


@contextmanager
def _about(path: Path) -> Iterator[None]:
    """Add the file name to errors about its content."""
    try:
        yield
    except EigenmapError as error:
        if str(path) in str(error):
            raise
        raise EigenmapError(f"{path}: {error}") from None


def _is_zip(path: Path) -> bool:
    try:
        return is_zipfile(path)
    except OSError as error:
        raise EigenmapError(f"{path} cannot be read: {error.strerror}.") from None


def _node_arrays(
    path: Path, names: set[str], array: Callable[[str], Any]
) -> tuple[Tensor | SparseRows, Tensor | None, dict[str, Tensor]]:
    """Return features, labels and splits, unchecked."""
    if not names:
        raise EigenmapError(f"{path} is not a graph: it contains no array, such as edge_index and x.")
    x = _sparse_features(path, array, names) if "x" not in names else as_features(array("x"))
    y = as_classes(array("y")) if "y" in names else None
    if y is None and "y" in names:
        raise EigenmapError(f"y in {path} must be class numbers (0, 1, 2 ..., -1 for none).")
    n = x.shape[0] if x.shape else 0
    splits = {split: as_nodes(array(name), name, n) for split, name in SPLITS.items() if name in names}
    return x, y, splits


def _sparse_features(path: Path, array: Callable[[str], Any], names: set[str]) -> SparseRows:
    if not {"x_indptr", "x_indices", "x_shape"} <= names:
        raise EigenmapError(f"{path} has neither x nor x_indptr, x_indices and x_shape: every node needs features.")
    offsets, columns = _list(path, "x_indptr", array).long(), _list(path, "x_indices", array)
    values = as_tensor(array("x_data")) if "x_data" in names else None
    n, shape = len(offsets) - 1, _sizes(path, array("x_shape"))
    # Some writers store the transposed shape; indptr determines the number of rows.
    if n < 0 or n not in shape or len(shape) != 2 or min(shape) < 0:
        raise EigenmapError(f"x_shape {tuple(shape)} does not match the {n:,} rows of x_indptr in {path}.")
    width = shape[1] if shape[0] == n else shape[0]
    fits = bool((offsets.diff() >= 0).all()) and int(offsets[0]) == 0 and int(offsets[-1]) == len(columns)
    if not fits or (values is not None and values.shape != columns.shape):
        raise EigenmapError(f"The sparse features in {path} are damaged: x_indptr does not match x_indices or x_data.")
    if not columns_fit(columns, width):
        raise EigenmapError(f"The sparse features in {path} are damaged: a column is not in 0 ... {width - 1}.")
    return SparseRows(offsets, columns, values, width)


def _sizes(path: Path, shape: Any) -> list[int]:
    sizes = as_tensor(np.ravel(shape), "x_shape").double()
    if not bool(sizes.isfinite().all()):
        raise EigenmapError(f"x_shape in {path} must be two whole numbers.")
    return [int(size) for size in sizes.tolist()]


def _list(path: Path, name: str, array: Callable[[str], Any]) -> Tensor:
    """Read a one-dimensional array of integers."""
    numbers = as_tensor(array(name), name)
    if numbers.ndim != 1 or numbers.is_floating_point():
        found = f"{numbers.dtype} of shape {tuple(numbers.shape)}".removeprefix("torch.")
        raise EigenmapError(f"{name} in {path} must be a list of whole numbers, not {found}.")
    return numbers


def _npy_rows(path: Path) -> Tensor | SparseRows:
    """Map the matrix in an .npy file."""
    with path.open("rb") as stream:
        if stream.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
            raise EigenmapError(f"{path} cannot be read; give features as an .npy or .npz file.")
    return as_features(open_npy(path, "c"))


def _counted(read: Callable[[str], Any], total: int, progress: Tick | None) -> Callable[[str], Any]:
    """Report the number of arrays read."""
    done = 0

    def array(name: str) -> Any:
        nonlocal done
        found, done = read(name), done + 1
        if progress is not None:
            progress(min(done, total), total)
        return found

    return array


def _stored_adjacency(
    path: Path, indptr: Tensor, indices: Tensor, cumulative: Tensor | None, progress: Tick | None
) -> Adjacency:
    walk = Adjacency(indptr.long(), indices, cumulative)
    fits = bool(len(indptr) and (indptr.diff() >= 0).all()) and int(indptr[0]) == 0 and int(indptr[-1]) == len(indices)
    if not fits or (cumulative is not None and cumulative.shape != indices.shape):
        raise EigenmapError(f"{path} is damaged: indptr does not match indices or weights.")
    if cumulative is not None and cumulative.dtype != torch.float64:
        raise EigenmapError(f"weights in {path} must be float64, as save_graph writes it, not {cumulative.dtype}.")
    if not len(indices):
        raise EigenmapError(f"{path} has no edges, so there is nothing to learn from.")
    if not 0 <= int(walk.indices.min()) <= int(walk.indices.max()) < walk.n_nodes:
        raise EigenmapError(f"{path} is damaged: it contains a node outside 0 ... {walk.n_nodes - 1}.")
    if any(bool((rows == columns).any()) for rows, columns in walk.strips()):
        raise EigenmapError(f"{path} contains self-loops, which a graph in a folder must not have.")
    if not walk.mirrored(progress):
        raise EigenmapError(f"{path} is damaged: edges in indptr and indices must exist in both directions.")
    if cumulative is not None and not _increases(cumulative):
        raise EigenmapError(f"weights in {path} must be the running sum of positive weights, as save_graph writes it.")
    return walk


def _increases(sums: Tensor, strip: int = 1 << 22) -> bool:
    """Tell whether this can be a running sum, in strips because it may be mapped; rounding may lose small weights."""
    parts = (sums[start : start + strip + 1] for start in range(0, len(sums), strip))
    return 0 < float(sums[0]) < float(sums[-1]) < math.inf and all(bool((part.diff() >= 0).all()) for part in parts)
