"""Stored codes: folders of shards, and .npy, .npz and Parquet files, read in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import read_json
from eigenmap.data.npy import Array, open_npy, open_npz
from eigenmap.data.parquet import batches, parquet_module, readable
from eigenmap.embedding.files import names_file
from eigenmap.embedding.shards import FINGERPRINT, Codebook
from eigenmap.model import Codes

CodeBlocks: TypeAlias = Iterator[tuple[list[str], Codes]]

_ROWS = 8192
"""Codes read at a time."""


@dataclass(frozen=True)
class StoredCodes:
    """Codes on disk with the names of their items, read in blocks.

    Attributes:
        path: folder or file.
        dim: length of the codes.
        fingerprint: the model that made them, or None if it is not stored.

    """

    path: Path
    dim: int
    fingerprint: str | None
    read: Callable[[], CodeBlocks]

    def __iter__(self) -> CodeBlocks:
        return self.read()


def open_codes(path: Path) -> StoredCodes | None:
    """Open the codes at a path; return None if it contains something else, such as images.

    Codes are written by `eigenmap embed`. Any .npy matrix of floats with one row per item is accepted too. The names
    for `codes.npy` are read from `codes.ids.json` beside it, and are row numbers without that file.
    """
    if Codebook.is_at(path):
        shards = Codebook.open(path)
        return StoredCodes(path, shards.plan.dim, shards.plan.fingerprint, lambda: iter(shards))
    opener = {".npy": _npy, ".npz": _npz, ".parquet": _parquet}.get(path.suffix.lower())
    return opener(path) if opener is not None and path.is_file() else None


def _npy(path: Path) -> StoredCodes | None:
    opened, codes = _identity(path), open_npy(path)
    if not _is_matrix(codes):
        return None

    def read() -> CodeBlocks:
        return _cut(codes, _names_of(path, len(codes), opened))

    return StoredCodes(path, codes.shape[1], None, read)


def _npz(path: Path) -> StoredCodes | None:
    opened = _identity(path)
    with open_npz(path) as arrays:
        if "codes" not in arrays.names or len(arrays.shape("codes")) != 2:
            return None
        codes = arrays["codes"]
    if not _is_matrix(codes):
        return None
    names = _names_of(path, len(codes), opened)
    return StoredCodes(path, codes.shape[1], None, lambda: _cut(codes, names))


def _identity(path: Path) -> tuple[int, int, int] | None:
    """Return what distinguishes the file at a path from one that replaces it; None if there is none."""
    try:
        now = path.stat()
    except OSError:
        return None
    return now.st_ino, now.st_size, now.st_mtime_ns


def _names_of(path: Path, count: int, opened: tuple[int, int, int] | None) -> list[str]:
    """Return the names of codes that were opened before, or row numbers; refuse names of codes that replaced them."""
    names = stored_names(path, count)
    if _identity(path) != opened:
        raise EigenmapError(f"{path} was replaced while it was read; run the same command again")
    return names or [str(row) for row in range(count)]


def _parquet(path: Path) -> StoredCodes | None:
    with readable(path):
        file = parquet_module().ParquetFile(path)
        columns = {field.name: field.type for field in file.schema_arrow}
        kind = columns.get("code")
        dim = int(getattr(kind, "list_size", 0)) if kind is not None and _is_of_floats(kind) else 0
        made_by = (file.schema_arrow.metadata or {}).get(FINGERPRINT.encode(), b"").decode()
    if "id" not in columns or not dim:
        return None

    def read() -> CodeBlocks:
        for batch in batches(file, path, _ROWS, columns=["id", "code"]):
            with readable(path):
                lists, names = batch.column("code"), batch.column("id")
                for column, what in ((lists, "code"), (names, "id")):
                    if column.null_count:
                        raise EigenmapError(f"{path} has rows without {what}; leave them out")
                flat = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
                yield [str(name) for name in names.to_pylist()], flat.reshape(len(names), dim)

    return StoredCodes(path, dim, made_by or None, read)


def _is_of_floats(kind: Any) -> bool:
    """Tell whether a column contains lists of floats, of any precision."""
    import pyarrow as pa

    return bool(pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type))


def _is_matrix(codes: Array) -> bool:
    return codes.ndim == 2 and codes.dtype.kind == "f" and codes.size > 0


def _cut(codes: Array, names: list[str]) -> CodeBlocks:
    for start in range(0, len(codes), _ROWS):
        rows = slice(start, start + _ROWS)
        yield names[rows], np.asarray(codes[rows], np.float32)


def stored_names(path: Path, count: int) -> list[str] | None:
    """Return the names in the file beside an .npy file, or in an .npz file's array `ids`; None without them."""
    if path.suffix.lower() == ".npz":
        with open_npz(path) as arrays:
            if "ids" not in arrays.names:
                return None
            ids = arrays["ids"]
        if ids.ndim != 1:
            raise EigenmapError(f"the ids in {path} are not a list of names; remove them to name items by row number")
        return _checked([str(name) for name in ids], count, path)
    file = names_file(path)
    if file is None or not file.exists():
        return None
    try:
        names = read_json(file)
    except (OSError, ValueError) as error:
        raise EigenmapError(f"{file} is damaged or cannot be read: {error}") from error
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise EigenmapError(f"{file} is not a list of names; remove it to name items by row number")
    return _checked(names, count, file)


def _checked(names: list[str], count: int, file: Path) -> list[str]:
    if len(names) != count:
        raise EigenmapError(f"{file} contains {len(names):,} names for {count:,} codes; embed the images again")
    return names
