"""Codes of all nodes of a graph, averaged over neighbours, in bounded memory.

    embed_nodes(model, graph.x, graph.walk(), "codes/")         # a folder to which new nodes can be added

Features are read and encoded in batches of rows. Averaging over neighbours processes a few columns of all rows at a
time (`relations.propagation`): a graph of n nodes needs about 20 n bytes per column, and as many columns are processed
together as fit into `memory`. Edges are read in strips. Intermediate results are in files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from eigenmap.core.arguments import a_device, a_path, whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.core.folders import is_empty_folder, scratch_folder, staged_folder
from eigenmap.data.graphs.adjacency import Adjacency
from eigenmap.embedding.files import write_matrix
from eigenmap.embedding.node_store import expected, require_nodes, write_description
from eigenmap.model import Eigenmap
from eigenmap.networks import SparseRows
from eigenmap.relations.neighbour_codes import Cut
from eigenmap.relations.neighbourhood import missing_nodes, require_known
from eigenmap.relations.propagation import Matrix, Propagation, Smoothing, blocks_of_columns, unit

MEMORY = 1 << 30
"""Maximum number of bytes of the columns that are averaged together."""
ROWS = 8192
"""Rows that are ordered at a time."""

Tick = Callable[[int, int], object]


@dataclass(frozen=True)
class GraphRows:
    """Input for the codes of a graph: model, features, edges, and nodes without features."""

    model: Eigenmap
    x: Tensor | SparseRows
    walk: Adjacency
    missing: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, model: Eigenmap, x: object, walk: Adjacency, missing: object = None) -> GraphRows:
        """Check that the features suit the model and have one row per node."""
        rows = model.input.read(x)
        if isinstance(rows, Tensor | SparseRows) and len(rows) != walk.n_nodes:
            raise EigenmapError(
                f"x has {len(rows):,} rows of features for {walk.n_nodes:,} nodes; give one row per node."
            )
        return cls(model, rows, walk, missing_nodes(missing, len(rows)))

    def __len__(self) -> int:
        return len(self.x)


def embed_nodes(
    model: Eigenmap,
    x: object,
    walk: Adjacency,
    out: str | Path,
    *,
    missing: object = None,
    memory: int = MEMORY,
    batch_size: int = 4096,
    device: str | None = None,
    overwrite: bool = False,
    progress: Tick | None = None,
) -> Path:
    """Write the codes of all nodes of a graph to a folder, with all data needed to add new nodes.

    Args:
        model: a model of nodes that was saved or loaded, so that its weights have a fingerprint.
        x: features of the nodes, possibly memory-mapped.
        walk: the edges, `graph.walk()`, possibly memory-mapped.
        out: the folder, which is written atomically.
        missing: numbers, or a mask, of nodes whose features are unknown.
        memory: maximum number of bytes of the columns that are averaged together.
        batch_size: number of nodes encoded at a time.
        device: device to encode on; default that of the model.
        overwrite: whether existing node codes may be replaced.
        progress: called as progress(done, total), first for encoded nodes and then for averaged columns.

    """
    out, batch_size, memory = a_path(out, "out"), whole_number(batch_size, "batch_size"), whole_number(memory, "memory")
    given = GraphRows.of(model, x, walk, missing)
    if model.weights_sha256 is None:
        raise EigenmapError("Stored codes record the fingerprint of their model: save the model first.")
    if out.exists():
        require_nodes(out)
        if not overwrite and not is_empty_folder(out):  # before the work of hours, not after it
            raise EigenmapError(f"{out} exists; choose another name or allow overwriting.")
    smooth = Smoothing.of(walk)
    with scratch_folder(out) as scratch:
        make_states(given, smooth, scratch, memory, batch_size, device, progress)
        with staged_folder(out, replace=overwrite, check=require_nodes) as staging:
            _write_store(given, smooth, scratch, staging)
    return out


def _write_store(given: GraphRows, smooth: Smoothing, scratch: Path, staging: Path) -> None:
    """Write the files of a folder of codes from the states of all nodes."""
    model, walk = given.model, given.walk
    way, shape = model.neighbours.propagation, (len(given), model.n_components)
    codes = (code for _, code in ordered_rows(given, scratch, Cut(model.n_components)))
    write_rows(staging / "codes.npy", shape, codes)
    for name in expected(way)[1:]:
        state = np.load(scratch / f"{name}.npy", mmap_mode="r")
        write_rows(
            staging / f"{name}.npy", shape, (state[start : start + ROWS] for start in range(0, len(state), ROWS))
        )
    np.save(staging / "degrees.npy", smooth.degrees)
    np.save(staging / "indptr.npy", walk.indptr.cpu().numpy())
    np.save(staging / "indices.npy", walk.indices.cpu().numpy())
    if walk.cumulative is not None:
        np.save(staging / "weights.npy", walk.cumulative.cpu().numpy())
    assert model.weights_sha256 is not None
    write_description(staging, model.weights_sha256, way, smooth.loop, shape)


def write_rows(path: Path, shape: tuple[int, int], blocks: Iterable[Matrix]) -> None:
    """Write a matrix, block by block."""
    with path.open("wb") as file:
        write_matrix(file, shape, blocks)


def make_states(
    given: GraphRows,
    smooth: Smoothing,
    folder: Path,
    memory: int = MEMORY,
    batch_size: int = 4096,
    device: str | None = None,
    progress: Tick | None = None,
) -> None:
    """Write own.npy and, if the propagation needs them, state.npy and last.npy: the states of the last two hops."""
    n, k, way = len(given), given.model.n_components, given.model.neighbours.propagation
    if device is not None:
        given.model.network.to(a_device(device))
    seen = given.model.seen(given.x, smooth, given.missing)
    own = _new(folder / "own.npy", (n, k))
    for start in range(0, n, batch_size):
        stop = min(start + batch_size, n)
        codes = given.model.codes_of(seen[start:stop], batch_size=batch_size)
        own[start:stop] = np.where(given.missing[start:stop, None], np.float32(0), codes)
        if progress is not None:
            progress(stop, n)
    hops = max(way.hops, int(given.missing.any()))
    files = {hops: _new(folder / "last.npy", (n, k))} if hops else {}
    if hops > 1:
        files[hops - 1] = _new(folder / "state.npy", (n, k))
    for columns in blocks_of_columns(n, k, memory) if hops else []:
        part = _columns(own, columns)
        for hop, state in enumerate(_states(way, smooth, part, hops)):
            if hop in files:
                _set_columns(files[hop], columns, state)
        if progress is not None:
            progress(columns.stop, k)


def _states(way: Propagation, smooth: Smoothing, own: Matrix, hops: int) -> Iterator[Matrix]:
    """Yield the states of a propagation; for "none", one average, which nodes without features need."""
    return way.states(smooth, own) if way.hops == hops else Propagation("S").states(smooth, own)


def ordered_rows(given: GraphRows, folder: Path, cut: Cut) -> Iterator[tuple[slice, Matrix]]:
    """Yield the codes of all nodes in blocks of rows, from the files of `make_states`."""
    how = given.model.neighbours
    arrays = {path.stem: np.load(path, mmap_mode="r") for path in folder.glob("*.npy")}
    for start in range(0, len(given), ROWS):
        rows = slice(start, min(start + ROWS, len(given)))
        missing = given.missing[rows]
        state = {name: np.array(array[rows]) for name, array in arrays.items() if name in ("own", "state", "last")}
        if how.propagation.way == "none":
            y = np.where(missing[:, None], unit(state["last"]), state["own"]) if missing.any() else state["own"]
        elif how.propagation.way == "concat":
            y = how.propagation.combine([state["own"], state["state"], state["last"]])
        else:
            y = state["last"]
        require_known(y, missing, first=start)
        yield rows, how.ordered(y, cut)


def _new(path: Path, shape: tuple[int, int]) -> Any:
    return np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)


def _columns(array: Any, columns: slice) -> Matrix:
    """Return some columns of a large file, read in strips of rows."""
    out = np.empty((len(array), columns.stop - columns.start), np.float32)
    for start in range(0, len(array), 1 << 16):
        out[start : start + (1 << 16)] = array[start : start + (1 << 16), columns]
    return out


def _set_columns(array: Any, columns: slice, values: Matrix) -> None:
    for start in range(0, len(array), 1 << 16):
        array[start : start + (1 << 16), columns] = values[start : start + (1 << 16)]
