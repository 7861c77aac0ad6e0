"""Stored codes of the nodes of a graph, with all data needed to add new nodes.

    _nodes.json     model, propagation, number of nodes, and the size and checksum of every other file
    codes.npy       (n, k) the codes
    own.npy         (n, k) codes from features alone; zeros if the features are unknown
    state.npy       (n, k) the state before the last hop, if there are several hops
    degrees.npy     (n,) degrees, including self-loops
    indptr.npy, indices.npy, weights.npy    the edges, in the format of `save_graph`

Files are memory-mapped, so only the rows of a new node's neighbours are read, however large the graph is.

    stored = NodeCodes.open("codes/")
    model.encode(x_new, edges=[[n, n], [17, 4]], stored=stored)      # the new node n has edges to nodes 17 and 4
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from eigenmap.core.arguments import a_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import read_json, write_json
from eigenmap.data.graphs.adjacency import Adjacency
from eigenmap.data.npy import open_npy
from eigenmap.description import WAYS, Checks, check_values, is_object, is_text, number_between, whole_between
from eigenmap.embedding.checksums import Checksum
from eigenmap.relations.neighbourhood import Numbers
from eigenmap.relations.propagation import Matrix, Propagation

MANIFEST = "_nodes.json"
_FORMAT, _VERSION = "eigenmap-nodes", 1
_MATRICES = ("codes", "own", "state")
_NAMES = (*_MATRICES, "degrees", "indptr", "indices", "weights")
_TYPES: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("degrees", "weights"), (np.float64,)),
    **dict.fromkeys(("indptr", "indices"), (np.int32, np.int64)),
}
"""Number types of files; float32 in all others."""
_CHECKS: Checks = {
    "format": (_FORMAT, lambda value: value == _FORMAT),
    "version": (str(_VERSION), lambda value: value == _VERSION),
    "fingerprint": ("the digest of a model's weights", lambda value: is_text(value) and len(value) == 64),
    "way": (f"one of {', '.join(WAYS)}", lambda value: is_text(value) and value in WAYS),
    "restart": ("a probability below 1", number_between(0.0, 1 - 1e-9)),
    "nodes": ("a whole number of at least 1", whole_between(1, 1 << 48)),
    "n_components": ("a whole number of at least 1", whole_between(1, 1 << 31)),
    "loop": ("a positive number", number_between(1e-300, 1e300)),
    "files": ("an object", is_object),
}


@dataclass(frozen=True)
class NodeCodes:
    """An open folder of node codes.

    Attributes:
        path: the folder.
        fingerprint: fingerprint of the model that made the codes.
        propagation: propagation of the codes.
        n_components: length of the codes.
        loop: weight of the self-loop at every node.
        arrays: the files, as memory maps.
        checksums: checksums of the files, by name.

    """

    path: Path
    fingerprint: str
    propagation: Propagation
    n_components: int
    loop: float
    arrays: Mapping[str, npt.NDArray[Any]]
    checksums: Mapping[str, Checksum]

    @classmethod
    def open(cls, path: str | Path) -> NodeCodes:
        """Open a folder written by `eigenmap embed --neighbours` or `embed_nodes`."""
        path = a_path(path, "path")
        while True:
            about = _read(path)
            try:
                opened = cls._opened(path, about)
            except EigenmapError:
                if _read(path) == about:
                    raise
            else:
                if _read(path) == about:  # with the checksums of all files: otherwise others have replaced them
                    return opened

    @classmethod
    def _opened(cls, path: Path, about: Mapping[str, Any]) -> NodeCodes:
        """Open the files of a folder with this description."""
        way = Propagation(about["way"], about["restart"] if about["way"] == "pagerank" else 0.0)
        names = [name for name in _NAMES if f"{name}.npy" in about["files"]]
        lacking = {*expected(way), "degrees", "indptr", "indices"} - set(names)
        if lacking:
            raise EigenmapError(f"{path / MANIFEST} is damaged: it lacks {min(lacking)}.npy; embed the graph again.")
        arrays = {name: open_npy(path / f"{name}.npy") for name in names}
        n, k = about["nodes"], about["n_components"]
        for name, array in arrays.items():
            if array.dtype not in _TYPES.get(name, (np.float32,)):
                raise EigenmapError(f"{path / name}.npy is damaged: it contains {array.dtype}; embed the graph again.")
        for name, array in arrays.items():
            shape = (n, k) if name in _MATRICES else (n + (name == "indptr"),)
            if name in ("indices", "weights"):
                shape = (int(arrays["indptr"][-1]) if arrays["indptr"].ndim == 1 else -1,)
            if array.shape != shape:
                raise EigenmapError(
                    f"{path / name}.npy is damaged: it has shape {array.shape}, not {shape}; embed the graph again."
                )
        checksums = _checksums(path, about["files"])
        return cls(path, about["fingerprint"], way, k, float(about["loop"]), arrays, checksums)

    @staticmethod
    def is_at(path: Path) -> bool:
        """Tell whether a folder contains node codes."""
        return (path / MANIFEST).is_file()

    def __len__(self) -> int:
        return len(self.arrays["codes"])

    @property
    def weighted(self) -> bool:
        """Whether the edges have weights."""
        return "weights" in self.arrays

    @property
    def codes(self) -> Matrix:
        """Codes of all nodes, as a memory map."""
        return self.arrays["codes"]

    def degrees(self, nodes: Numbers) -> npt.NDArray[np.float64]:
        """Return the degrees of nodes, including the self-loop."""
        return np.asarray(self.arrays["degrees"][nodes], np.float64)

    def states(self, nodes: Numbers) -> list[Matrix]:
        """Return the states of nodes needed by each hop, reading nothing else."""
        return boundary(self.propagation, {name: self.arrays[name][nodes] for name in _rows_of(self.propagation)})

    def own(self, nodes: Numbers) -> Matrix:
        """Return the codes of nodes from features alone."""
        return np.asarray(self.arrays["own"][nodes], np.float32)

    def walk(self) -> Adjacency:
        """Return the edges, which stay on disk."""
        weights = self.arrays.get("weights")
        return Adjacency(
            torch.from_numpy(np.array(self.arrays["indptr"], np.int64)),
            torch.from_numpy(open_npy(self.path / "indices.npy", "c")),
            None if weights is None else torch.from_numpy(open_npy(self.path / "weights.npy", "c")),
        )

    def verify(self) -> list[str]:
        """Compare every file with its checksum; return one line per file, or raise on the first damaged one."""
        lines = [f"{MANIFEST}: intact"]
        for name, wanted in sorted(self.checksums.items()):
            with (self.path / name).open("rb") as file:
                if Checksum.of(file) != wanted:
                    raise EigenmapError(f"{self.path / name} is damaged: its checksum differs; embed the graph again.")
            lines.append(f"{name}: {wanted.size:,} bytes")
        return lines


def expected(way: Propagation) -> list[str]:
    """Return the names of the matrices stored for a propagation."""
    return ["codes", "own", *(["state"] if way.hops > 1 else [])]


def _rows_of(way: Propagation) -> list[str]:
    """Return the names of the matrices whose rows new nodes need."""
    return {"pagerank": ["state"], "S2": ["own", "state"], "concat": ["own", "state"]}.get(way.way, ["own"])


def boundary(way: Propagation, rows: Mapping[str, npt.NDArray[Any]]) -> list[Matrix]:
    """Return the states needed by each hop, from rows of the stored matrices."""
    states = [np.asarray(rows[name], np.float32) for name in _rows_of(way)]
    return states * way.hops if way.way == "pagerank" else states


def write_description(folder: Path, fingerprint: str, way: Propagation, loop: float, shape: tuple[int, int]) -> None:
    """Write the description of a folder whose other files are complete."""
    checksums = {}
    for name in _NAMES:
        if (folder / f"{name}.npy").is_file():
            with (folder / f"{name}.npy").open("rb") as file:
                checksums[f"{name}.npy"] = Checksum.of(file)._asdict()
    about = {"format": _FORMAT, "version": _VERSION, "fingerprint": fingerprint, **asdict(way)}
    about |= {"nodes": shape[0], "n_components": shape[1], "loop": loop, "files": checksums}
    write_json(folder / MANIFEST, about)


def require_nodes(path: Path) -> None:
    """Refuse to replace anything but node codes."""
    ours = {MANIFEST, *(f"{name}.npy" for name in _NAMES)}
    if not path.is_dir() or any(file.name not in ours for file in path.iterdir()):
        raise EigenmapError(f"{path} exists and is not a folder of node codes; choose another name.")


def _read(path: Path) -> dict[str, Any]:
    try:
        about = read_json(path / MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        raise EigenmapError(
            f"{path} contains no node codes; create them with `eigenmap embed RUN GRAPH --neighbours --out FOLDER`."
        ) from None
    except (OSError, ValueError) as error:
        raise EigenmapError(f"{path / MANIFEST} is damaged or cannot be read: {error}.") from None
    if not isinstance(about, dict):
        raise EigenmapError(f"{path / MANIFEST} is damaged: it does not describe node codes; embed the graph again.")
    check_values(about, _CHECKS, "", path / MANIFEST)
    return about


def _checksums(path: Path, files: Mapping[str, Any]) -> dict[str, Checksum]:
    try:
        if not {f"{name}.npy" for name in _NAMES}.issuperset(files):
            raise ValueError("it names other files")
        return {name: Checksum(int(about["size"]), str(about["crc32"])) for name, about in files.items()}
    except (TypeError, KeyError, ValueError, OverflowError):
        raise EigenmapError(
            f"{path / MANIFEST} is damaged: its checksums are invalid; embed the graph again."
        ) from None
