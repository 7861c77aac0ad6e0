"""Rows of numbers of equal length, in memory or memory-mapped, read a block at a time.

    vectors = load_vectors("x.npy")
    for rows in vectors.blocks():            # float32 or float64, finite
        ...

Rows that are not finite are refused by number when they are read, so that no separate pass over the file is needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.data.npy import open_npy, open_npz
from eigenmap.data.vectors import arrow
from eigenmap.spectrum import unit_rms_rows

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.floating[Any]]

BLOCK = 16_384
"""Rows that are read at a time."""
_SAMPLE = 64
"""Rows at each end that tell one set of vectors from another."""


@dataclass(frozen=True)
class Vectors:
    """A matrix with one vector per row.

    Attributes:
        array: (n, d) numbers of any real type; a memory map where they come from a file.
        name: what an error calls them: a file, or an argument.
        ids: names of the rows, where the file has a column of them.

    """

    array: Array
    name: str = "the vectors"
    ids: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.array)

    @property
    def n_features(self) -> int:
        """Numbers per row."""
        return int(self.array.shape[1])

    def names(self) -> list[str]:
        """A name per row: its id, or else its number."""
        return [str(row) for row in range(len(self))] if self.ids is None else list(self.ids)

    def block(self, start: int, stop: int) -> Floats:
        """The rows start ... stop - 1 as float32, or float64 if they are stored so."""
        return self._checked(self.array[start:stop], range(start, min(stop, len(self))))

    def take(self, rows: npt.NDArray[np.int64]) -> Floats:
        """These rows, in this order."""
        if len(rows) > 1 and rows[-1] - rows[0] < 2 * len(rows) and bool((rows[1:] > rows[:-1]).all()):
            first = int(rows[0])  # ascending and dense: one sequential read
            return self._checked(self.array[first : int(rows[-1]) + 1][rows - first], rows)
        return self._checked(self.array[rows], rows)

    def blocks(self, size: int = BLOCK) -> Iterator[Floats]:
        """All rows, `size` at a time."""
        for start in range(0, len(self), size):
            yield self.block(start, start + size)

    def cut(self, stop: int) -> Vectors:
        """The first rows only."""
        return replace(self, array=self.array[:stop], ids=None if self.ids is None else self.ids[:stop])

    def digest(self) -> str:
        """Tells these vectors from others, by their shape and the rows at both ends."""
        told = hashlib.sha256(f"{self.array.shape} {self.array.dtype.str}".encode())
        for part in (self.array[:_SAMPLE], self.array[-_SAMPLE:]):
            told.update(np.ascontiguousarray(part).tobytes())
        return told.hexdigest()[:16]

    def _checked(self, rows: Array, numbers: Sequence[int] | npt.NDArray[np.int64]) -> Floats:
        kind = np.float64 if rows.dtype.kind == "f" and rows.dtype.itemsize >= 8 else np.float32
        made: Floats = np.array(rows, dtype=kind)  # a copy: torch warns about memory that it may not write to
        bad = ~np.isfinite(made).all(axis=1)
        if bad.any():
            row = int(numbers[int(bad.argmax())])
            raise EigenmapError(
                f"Row {row:,} of {self.name} (counted from 0) holds NaN or infinity; every number must be finite."
            )
        return made


def load_vectors(source: object, name: str = "the vectors", n_features: int | None = None) -> Vectors:
    """Vectors from a file or from memory.

    Args:
        source: an .npy file (memory-mapped), an .npz file with one matrix, a Parquet or Arrow file with a column of
            lists, `FILE:COLUMN` where it has several; an array, a tensor, an Arrow array or table; or `Vectors`.
        name: what errors call vectors that come from no file.
        n_features: how many numbers a row must have; any number by default.

    """
    vectors = _found(source, name)
    if n_features is not None and vectors.n_features != n_features:
        raise EigenmapError(
            f"{vectors.name} has {vectors.n_features:,} numbers per row, and {n_features:,} are needed here."
        )
    return vectors


def as_rows(rows: Array, unit: bool) -> Tensor:
    """Rows as a tensor, scaled to one norm if `unit`."""
    made = torch.from_numpy(rows)
    return unit_rms_rows(made) if unit else made


def is_vector_file(path: Path) -> bool:
    """Whether a name is that of a file of vectors."""
    return split_column(path)[0].suffix.lower() in (".npy", ".npz", *arrow.SUFFIXES)


def _found(source: object, name: str) -> Vectors:
    if isinstance(source, Vectors):
        return source
    if isinstance(source, str | Path):
        return _from_file(Path(source))
    if arrow.is_arrow(source):
        made = arrow.from_memory(source, name)
        return Vectors(_matrix(made.rows, name), name, made.ids)
    return Vectors(_matrix(_plain(source, name), name), name)


def _plain(source: object, name: str) -> Array:
    """An array from whatever a caller has in memory."""
    given: Any = source
    if hasattr(given, "detach"):  # a tensor
        given = given.detach().cpu()
        given = given.float() if str(given.dtype) == "torch.bfloat16" else given
    try:
        return np.asarray(given)
    except (TypeError, ValueError):
        raise EigenmapError(
            f"{name} must be a matrix with one vector per row: rows of unequal length are none."
        ) from None


def _from_file(path: Path) -> Vectors:
    file, column = split_column(path)
    suffix = file.suffix.lower()
    if not file.exists():
        raise EigenmapError(f"There is no file {file}.")
    if file.is_dir():
        raise EigenmapError(f"{file} is a folder; vectors come as an .npy, .npz, Parquet or Arrow file.")
    if suffix in arrow.SUFFIXES:
        made = arrow.from_file(file, column)
        return Vectors(_matrix(made.rows, str(file)), str(file), made.ids)
    if suffix == ".npz":
        return Vectors(_matrix(_only_matrix(file), str(file)), str(file))
    if suffix != ".npy":
        raise EigenmapError(f"{file} is no file of vectors: they come as .npy, .npz, .parquet, .arrow or .feather.")
    return Vectors(_matrix(open_npy(file), str(file)), str(file))


def split_column(path: Path) -> tuple[Path, str | None]:
    """`x.parquet:column` as a file and a column, unless there is a file of that whole name."""
    name, colon, column = str(path).rpartition(":")
    if colon and column and not path.exists() and Path(name).suffix.lower() in arrow.SUFFIXES:
        return Path(name), column
    return path, None


def _only_matrix(file: Path) -> Array:
    with open_npz(file) as arrays:
        matrices = [name for name in arrays.names if len(arrays.shape(name)) == 2]
        if len(matrices) != 1:
            found = ", ".join(matrices) or "none"
            raise EigenmapError(f"{file} must hold exactly one matrix, and it has: {found}; save it as an .npy file.")
        return arrays[matrices[0]]


def _matrix(array: Array, name: str) -> Array:
    """The array, if it is a matrix of numbers with something in it."""
    if array.ndim != 2:
        raise EigenmapError(f"{name} must be a matrix with one vector per row, not of shape {tuple(array.shape)}.")
    if array.dtype.kind not in "fiu":
        raise EigenmapError(f"{name} must hold numbers, not {array.dtype}.")
    if not len(array) or not array.shape[1]:
        raise EigenmapError(f"{name} is empty: it has shape {tuple(array.shape)}.")
    whole_number(array.shape[1], f"the row length of {name}", 1, 1 << 20)
    return array
