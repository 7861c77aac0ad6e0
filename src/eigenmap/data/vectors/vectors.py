"""Vectors: rows of equal length, in memory or memory-mapped, read block by block.

    vectors = load_vectors("x.npy")
    for rows in vectors.blocks():            # float32 or float64, finite
        ...

Rows with NaN or infinity are refused when they are read, so no separate pass over the file is needed.
"""

from __future__ import annotations

import hashlib
import mmap
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
"""Rows read at a time."""
_NEAR, _NEARBY, _SCATTERED = 64 << 20, 1_024, 32
"""Rows of a file that are read before its pages are released: `_NEARBY` within `_NEAR` bytes, else `_SCATTERED`.

For a single row, the system maps up to megabytes of the file around it."""
_SAMPLE = 64
"""Rows at each end that are part of the digest."""


@dataclass(frozen=True)
class Vectors:
    """A matrix with one vector per row.

    Attributes:
        array: (n, d) numbers of any real type; a memory map if they come from a file.
        name: name in error messages, a file or an argument.
        ids: names of the rows, if the file has a column of them.

    """

    array: Array
    name: str = "the vectors"
    ids: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.array)

    @property
    def n_features(self) -> int:
        """Number of values per row."""
        return int(self.array.shape[1])

    def names(self) -> list[str]:
        """Return one name per row: its id, or else its number."""
        return [str(row) for row in range(len(self))] if self.ids is None else list(self.ids)

    def block(self, start: int, stop: int) -> Floats:
        """Return rows start ... stop - 1 as float32, or as float64 if they are stored as float64."""
        made: Floats = np.array(self.array[start:stop], self._kind)  # a copy, since torch warns about read-only memory
        self._release()
        return self._checked(made, range(start, min(stop, len(self))))

    def whole(self) -> Floats:
        """Return all rows; not as a copy if they are in memory and have the right type."""
        flags, kind = self.array.flags, np.dtype(self._kind)
        if isinstance(self.array, np.memmap) or not (flags.carray and self.array.dtype == kind):
            return self.block(0, len(self))
        return self._checked(self.array, range(len(self)))

    def take(self, rows: npt.NDArray[np.int64]) -> Floats:
        """Return the given rows in the given order."""
        if not self._mapped:
            return self._checked(np.asarray(self.array[rows], self._kind), rows)
        found = np.empty((len(rows), self.n_features), self._kind)
        for start in range(0, len(rows), _NEARBY):
            some = rows[start : start + _NEARBY]
            span = (int(some.max()) - int(some.min())) * self.n_features * self.array.dtype.itemsize
            step = _NEARBY if span <= _NEAR else _SCATTERED
            for first in range(0, len(some), step):
                found[start + first : start + first + step] = self.array[some[first : first + step]]
                self._release()
        return self._checked(found, rows)

    def blocks(self, size: int = BLOCK) -> Iterator[Floats]:
        """Yield all rows, `size` at a time."""
        for start in range(0, len(self), size):
            yield self.block(start, start + size)

    def cut(self, stop: int) -> Vectors:
        """Return the first `stop` rows."""
        return replace(self, array=self.array[:stop], ids=None if self.ids is None else self.ids[:stop])

    def digest(self) -> str:
        """Return a digest of the shape and of the rows at both ends."""
        digest = hashlib.sha256(f"{self.array.shape} {self.array.dtype.str}".encode())
        for part in (self.array[:_SAMPLE], self.array[-_SAMPLE:]):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()[:16]

    def row_keys(self) -> npt.NDArray[np.uint64]:
        """Return a number per row: equal rows have equal numbers, others practically never."""
        size = self.n_features * self.array.dtype.itemsize
        words = -(-size // 8)
        places = np.random.default_rng(0).integers(2**64, size=words, dtype=np.uint64)
        keys = np.empty(len(self), np.uint64)
        for start in range(0, len(self), BLOCK):
            rows = np.ascontiguousarray(self.array[start : start + BLOCK])
            padded = np.zeros((len(rows), 8 * words), np.uint8)
            padded[:, :size] = rows.view(np.uint8).reshape(len(rows), -1)
            keys[start : start + BLOCK] = _mixed(padded.view(np.uint64) + places).sum(axis=1)
            self._release()
        return keys

    @property
    def _mapped(self) -> bool:
        """Whether the rows are those of a file, of which nothing was changed."""
        return isinstance(self.array, np.memmap) and self.array.mode == "r"

    def _release(self) -> None:
        """Unmap the pages read so far, so that one pass over a file takes constant memory."""
        advice = getattr(mmap, "MADV_DONTNEED", None)  # not on Windows
        if advice is not None and self._mapped:
            self.array._mmap.madvise(advice)  # type: ignore[attr-defined]

    @property
    def _kind(self) -> type[np.float32] | type[np.float64]:
        """Type of the rows that are returned."""
        return np.float64 if self.array.dtype.kind == "f" and self.array.dtype.itemsize >= 8 else np.float32

    def _checked(self, made: Floats, numbers: Sequence[int] | npt.NDArray[np.int64]) -> Floats:
        """Return the rows of these numbers if all are finite."""
        with np.errstate(all="ignore"):
            finite = bool(np.isfinite(made.sum()))
        bad = np.zeros(0, bool) if finite else ~np.isfinite(made).all(axis=1)  # a sum of finite numbers may overflow
        if bad.any():
            row = int(numbers[int(bad.argmax())])
            raise EigenmapError(
                f"Row {row:,} of {self.name} (counted from 0) contains NaN or infinity; every number must be finite."
            )
        return made


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread every bit of each word over the whole word, in place (the finaliser of SplitMix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(31)
    return words


def load_vectors(source: object, name: str = "the vectors", n_features: int | None = None) -> Vectors:
    """Load vectors from a file or from memory.

    Args:
        source: an .npy file (memory-mapped), an .npz file with one matrix, a Parquet or Arrow file with a column of
            lists (`FILE:COLUMN` if it has several), an array, a tensor, an Arrow array or table, or `Vectors`.
        name: name in error messages for vectors that do not come from a file.
        n_features: required length of a row; default any.

    """
    vectors = _found(source, name)
    if n_features is not None and vectors.n_features != n_features:
        raise EigenmapError(f"{vectors.name} must have {n_features:,} numbers per row, not {vectors.n_features:,}.")
    return vectors


def as_rows(rows: Array, unit: bool) -> Tensor:
    """Return rows as a tensor, scaled to norm 1 if `unit`."""
    made = torch.from_numpy(rows)
    return unit_rms_rows(made) if unit else made


def is_vector_file(path: Path) -> bool:
    """Tell whether a file name is that of a file of vectors."""
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
    """Convert anything in memory to an array."""
    given: Any = source
    if hasattr(given, "detach"):  # a tensor
        given = given.detach().cpu()
        given = given.float() if str(given.dtype) == "torch.bfloat16" else given
    if hasattr(given, "toarray"):  # NumPy would make it an array without shape
        raise EigenmapError(f"{name} must be a dense matrix, not a sparse one; if it fits into memory, use toarray().")
    try:
        return np.asarray(given)
    except (TypeError, ValueError):
        raise EigenmapError(f"{name} must be a matrix with one vector per row, all of the same length.") from None


def _from_file(path: Path) -> Vectors:
    file, column = split_column(path)
    suffix = file.suffix.lower()
    if not file.exists():
        raise EigenmapError(f"{file} does not exist.")
    if file.is_dir():
        raise EigenmapError(f"{file} is a folder; give an .npy, .npz, Parquet or Arrow file.")
    if suffix in arrow.SUFFIXES:
        made = arrow.from_file(file, column)
        return Vectors(_matrix(made.rows, str(file)), str(file), made.ids)
    if suffix == ".npz":
        return Vectors(_matrix(_only_matrix(file), str(file)), str(file))
    if suffix != ".npy":
        raise EigenmapError(f"{file} is not a file of vectors; give an .npy, .npz, .parquet, .arrow or .feather file.")
    return Vectors(_matrix(open_npy(file), str(file)), str(file))


def split_column(path: Path) -> tuple[Path, str | None]:
    """Split `x.parquet:column` into file and column, unless a file of that full name exists."""
    name, colon, column = str(path).rpartition(":")
    if colon and column and not path.exists() and Path(name).suffix.lower() in arrow.SUFFIXES:
        return Path(name), column
    return path, None


def _only_matrix(file: Path) -> Array:
    with open_npz(file) as arrays:
        matrices = [name for name in arrays.names if len(arrays.shape(name)) == 2]
        if len(matrices) != 1:
            found = ", ".join(matrices) or "none"
            raise EigenmapError(
                f"{file} must contain exactly one matrix, but has: {found}; save the matrix as an .npy file."
            )
        return arrays[matrices[0]]


def _matrix(array: Array, name: str) -> Array:
    """Return the array if it is a non-empty matrix of numbers; else raise."""
    if array.ndim != 2:
        raise EigenmapError(f"{name} must be a matrix with one vector per row, not of shape {tuple(array.shape)}.")
    if array.dtype.kind not in "fiu":
        raise EigenmapError(f"{name} must contain numbers, not {array.dtype}.")
    if not len(array) or not array.shape[1]:
        raise EigenmapError(f"{name} is empty: it has shape {tuple(array.shape)}.")
    whole_number(array.shape[1], f"the row length of {name}", 1, 1 << 20)
    return array
