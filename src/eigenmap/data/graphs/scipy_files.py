"""Sparse matrices in the .npz files of scipy.sparse.save_npz."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigenmap.core.errors import EigenmapError
from eigenmap.data.graphs.graph import as_features
from eigenmap.data.images.memory import memory_bytes
from eigenmap.data.npy import Npz
from eigenmap.networks.sparse import SparseRows

_PARTS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}


def read_scipy(arrays: Npz) -> SparseRows:
    """Return the matrix of an open file as rows of features.

    scipy.sparse.load_npz itself would trust whatever size the file states.
    """
    kind, shape = _kind(arrays["format"]), _shape(arrays["shape"])
    if kind not in _PARTS:
        raise EigenmapError(f"The sparse matrix has an unsupported format; use {', '.join(_PARTS)}.")
    parts = [arrays[name] for name in _PARTS[kind]]
    memory = memory_bytes()
    if memory is not None and 8 * (shape[0] + 1) > memory:
        raise EigenmapError(f"The sparse features are damaged: {shape[0]:,} rows do not fit into memory.")
    try:
        rows = as_features(_matrix(kind, parts, shape))
    except EigenmapError as error:
        raise EigenmapError(f"{arrays.path} cannot be used: {error}") from None
    except (ValueError, TypeError, IndexError, OverflowError) as error:  # inconsistent parts
        raise EigenmapError(f"{arrays.path} cannot be used: The sparse features are damaged: {error}.") from None
    assert isinstance(rows, SparseRows)
    return rows


def _matrix(kind: str, parts: list[Any], shape: tuple[int, int]) -> Any:
    import scipy.sparse

    make = getattr(scipy.sparse, f"{kind}_matrix")
    data, *where = parts
    if any(part.dtype.kind not in "iu" or part.ndim != 1 for part in where):
        raise EigenmapError("The sparse features are damaged: rows and columns must be whole numbers.")
    if kind == "coo":
        return make((data, tuple(where)), shape=shape)
    return make((data, *where), shape=shape)


def _kind(name: Any) -> str:
    """Decode the name of the format, which is stored as bytes."""
    if name.dtype.kind not in "SU" or name.ndim != 0:
        return ""
    value = name.item()
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _shape(shape: Any) -> tuple[int, int]:
    if shape.dtype.kind not in "iu" or shape.shape != (2,) or (shape.astype(np.int64) < 0).any():
        raise EigenmapError("The sparse features are damaged: their shape is not a pair of sizes.")
    return int(shape[0]), int(shape[1])
