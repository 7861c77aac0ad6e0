"""Addition of new nodes to a folder of node codes, with an update of the codes of their neighbours.

    append_nodes(model, "nodes/", x_new, [[n, n], [17, 4]])      # the new node n has edges to nodes 17 and 4

New nodes and their stored neighbours are computed together (`relations.neighbourhood`), from the stored states of the
nodes around them. More distant nodes keep their codes until the graph is embedded again. A new folder is written beside
the old one and then replaces it, so a killed process leaves the old one intact.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from eigenmap.core.arguments import a_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.folders import folder_lock, staged_folder
from eigenmap.embedding.node_store import NodeCodes, expected, write_description
from eigenmap.embedding.nodes import ROWS, write_rows
from eigenmap.model import Eigenmap, NodeInput
from eigenmap.relations.neighbour_codes import Cut, require_same
from eigenmap.relations.neighbourhood import (
    Edges,
    Neighbourhood,
    Numbers,
    filled,
    missing_nodes,
    new_edges,
    require_known,
)
from eigenmap.relations.propagation import STRIP, Matrix, row_strips

Floats = npt.NDArray[np.float64]


class Appended(NamedTuple):
    """Numbers of all nodes, of new nodes, and of updated codes of stored nodes."""

    nodes: int
    new: int
    refreshed: int


class _NewEdges(NamedTuple):
    """Edges of new nodes, in both directions, each once, sorted."""

    rows: Numbers
    columns: Numbers
    weights: Floats


def append_nodes(
    model: Eigenmap,
    path: str | Path,
    x: object,
    edges: object,
    *,
    missing: object = None,
    batch_size: int = 4096,
    device: str | None = None,
) -> Appended:
    """Add nodes to a folder written by `embed_nodes`, and update the codes of the nodes they have edges to.

    Args:
        model: the model of the stored codes.
        path: the folder.
        x: features of the new nodes.
        edges: edges of the new nodes, as for `Eigenmap.encode`; new nodes are numbered after the stored ones.
        missing: numbers, or a mask, of new nodes whose features are unknown; the first row of x is number 0.
        batch_size: number of nodes encoded at a time.
        device: device to encode on; default that of the model.

    """
    path = a_path(path, "path").resolve()
    NodeCodes.open(path)  # raises before anything is locked
    if isinstance(model.input, NodeInput) and model.input.hops:
        raise EigenmapError(
            "This model uses features of neighbours, which are not stored; embed the entire graph again."
        )
    own = model.encode(x, batch_size=batch_size, device=device)
    mask = missing_nodes(missing, len(own))
    own = np.where(mask[:, None], np.float32(0), own)
    with folder_lock(path):
        stored = NodeCodes.open(path)
        require_same(stored, model.weights_sha256, model.neighbours, model.n_components)
        new = _both_ways(new_edges(edges, stored, len(own)), stored, len(own))
        fresh = _Fresh.of(model, stored, new, own, mask)
        with staged_folder(path, replace=True, held=True) as staging:
            _write(stored, new, fresh, staging)
    return Appended(len(stored) + len(own), len(own), len(fresh.nodes) - len(own))


def _both_ways(edges: Edges, stored: NodeCodes, count: int) -> _NewEdges:
    named = torch.unique(torch.cat([edges.index.flatten(), torch.arange(len(stored), len(stored) + count)]))
    walk = Edges(torch.searchsorted(named, edges.index.contiguous()), edges.weights).walk(len(named))
    rows, columns = (named[ends].numpy() for ends in walk.edges())
    return _NewEdges(rows, columns, walk.weights(torch.arange(walk.n_entries)).numpy())


class _Fresh(NamedTuple):
    """Nodes whose rows change (updated stored nodes, then new nodes), and their new rows."""

    nodes: Numbers
    rows: dict[str, Matrix]
    degrees: Floats

    @classmethod
    def of(cls, model: Eigenmap, stored: NodeCodes, new: _NewEdges, own: Matrix, missing: Any) -> _Fresh:
        n = len(stored)
        touched = np.unique(new.rows[new.rows < n])
        nodes = np.concatenate([touched, np.arange(n, n + len(own))])
        old_rows, old_columns, old_weights = _stored_edges(stored, touched)
        rows, columns = np.concatenate([old_rows, new.rows]), np.concatenate([old_columns, new.columns])
        added = np.bincount(np.searchsorted(nodes, new.rows), new.weights, minlength=len(nodes))
        before = np.concatenate([stored.degrees(touched), np.full(len(own), stored.loop)])
        degrees: Floats = np.asarray(before + added, np.float64)

        def degrees_of(wanted: Numbers) -> Floats:
            places = np.searchsorted(nodes, wanted).clip(max=len(nodes) - 1)
            ours = nodes[places] == wanted
            found: Floats = degrees[places]
            found[~ours] = stored.degrees(wanted[~ours])
            return found

        weights = np.concatenate([old_weights, new.weights])
        around = Neighbourhood.of(nodes, rows, columns, weights, degrees_of, stored.loop)
        all_own = np.concatenate([stored.own(touched), own])
        unknown = np.concatenate([~all_own[: len(touched)].any(axis=1), missing])
        way, boundary = stored.propagation, stored.states(around.around)
        if way.way == "none":
            states = [filled(lambda h: around.smooth(h, boundary[0]), all_own, unknown)]
        else:
            states = around.states(way, all_own, boundary)
        y = way.combine(states)
        require_known(y[len(touched) :], missing, first=n)
        found = {"codes": model.neighbours.ordered(y, Cut(stored.n_components)), "own": all_own}
        if "state" in expected(way):
            found["state"] = states[-2]
        return cls(nodes, found, degrees)


def _stored_edges(stored: NodeCodes, nodes: Numbers) -> tuple[Numbers, Numbers, Floats]:
    """Return all stored edges of nodes."""
    indptr = stored.arrays["indptr"]
    starts, stops = np.asarray(indptr[nodes], np.int64), np.asarray(indptr[nodes + 1], np.int64)
    rows = np.repeat(nodes, stops - starts)
    entries = np.arange(len(rows)) + np.repeat(starts - np.cumsum(stops - starts) + (stops - starts), stops - starts)
    columns = np.asarray(stored.arrays["indices"][entries], np.int64)
    sums = stored.arrays.get("weights")
    if sums is None:
        return rows, columns, np.ones(len(rows))
    before = np.where(entries > 0, sums[np.maximum(entries - 1, 0)], 0.0)
    return rows, columns, np.asarray(sums[entries] - before, np.float64)


def _write(stored: NodeCodes, new: _NewEdges, fresh: _Fresh, staging: Path) -> None:
    total = int(fresh.nodes[-1]) + 1 if len(fresh.nodes) else len(stored)
    for name, rows in fresh.rows.items():
        blocks = _with_rows(stored.arrays[name], fresh.nodes, rows, total)
        write_rows(staging / f"{name}.npy", (total, stored.n_components), blocks)
    degrees = np.concatenate([stored.arrays["degrees"], np.zeros(total - len(stored))])
    degrees[fresh.nodes] = fresh.degrees
    np.save(staging / "degrees.npy", degrees)
    _write_edges(stored, new, total, staging)
    shape = (total, stored.n_components)
    write_description(staging, stored.fingerprint, stored.propagation, stored.loop, shape)


def _with_rows(array: npt.NDArray[Any], nodes: Numbers, rows: Matrix, total: int) -> Iterator[Matrix]:
    """Yield all rows in blocks, with changed rows replaced and new rows appended."""
    for start in range(0, total, ROWS):
        stop = min(start + ROWS, total)
        block = np.zeros((stop - start, array.shape[1]), np.float32)
        old = np.array(array[start:stop])
        block[: len(old)] = old
        first, last = np.searchsorted(nodes, [start, stop])
        block[nodes[first:last] - start] = rows[first:last]
        yield block


def _write_edges(stored: NodeCodes, new: _NewEdges, total: int, staging: Path) -> None:
    """Write the adjacency matrix with the new edges; new nodes have the largest numbers, so they end every row."""
    walk, old = stored.walk(), np.asarray(stored.arrays["indptr"], np.int64)
    indptr = np.concatenate([old, np.full(total - len(stored), old[-1])])
    more = np.concatenate([[0], np.cumsum(np.bincount(new.rows, minlength=total))])
    np.save(staging / "indptr.npy", indptr + more)
    kind = stored.arrays["indices"].dtype
    count, running = int(indptr[-1] + more[-1]), 0.0
    weighted = walk.cumulative is not None
    with (staging / "indices.npy").open("wb") as indices, (staging / "weights.npy").open("wb") as weights:
        _header(indices, kind, count)
        _header(weights, np.dtype(np.float64), count)
        for first, last in row_strips(indptr, STRIP):
            start, stop, begin, end = int(indptr[first]), int(indptr[last]), int(more[first]), int(more[last])
            places = indptr[new.rows[begin:end] + 1] - start
            columns = np.insert(walk.indices[start:stop].numpy(), places, new.columns[begin:end])
            indices.write(columns.astype(kind).tobytes())
            if weighted:
                values = np.insert(walk.weights(torch.arange(start, stop)).numpy(), places, new.weights[begin:end])
                sums = running + np.cumsum(values)
                running = float(sums[-1]) if len(sums) else running
                weights.write(sums.tobytes())
    if not weighted:
        (staging / "weights.npy").unlink()


def _header(file: Any, kind: np.dtype[Any], count: int) -> None:
    about = {"descr": kind.str, "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(file, about)
