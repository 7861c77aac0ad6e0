"""An index on disk: a directory that appears whole or not at all.

    index.json   format, version, n_components, metric, count, id type, fingerprint of the model (or null)
    codes.npy    (count, n_components) float32, read memory-mapped
    ids.json     the ids, a list of strings or of whole numbers, in the order of the rows
    model/       a copy of the model that made the codes, if one was given

Other files in the directory are left alone when it is read. Nothing in it is unpickled.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from eigenmap.errors import EigenmapError
from eigenmap.search.store import CodeStore

FORMAT = "eigenmap-index"
FORMAT_VERSION = 1
METRICS = ("cosine", "inner")
ID_TYPES: dict[str, type] = {"str": str, "int": int}

_ROWS_AT_ONCE = 16_384


@dataclass(frozen=True)
class Header:
    """What `index.json` says about an index."""

    n_components: int
    metric: str
    count: int
    id_type: str
    fingerprint: str | None

    def well_formed(self) -> bool:
        """Whether every entry has a type and value that an index can have."""
        numbers = (self.n_components, self.count)
        return (
            all(isinstance(number, int) and number >= 1 for number in numbers)
            and self.metric in METRICS
            and self.id_type in ID_TYPES
            and isinstance(self.fingerprint, str | None)
        )


def write(
    path: str | os.PathLike[str],
    header: Header,
    store: CodeStore,
    ids: Sequence[str | int],
    *,
    overwrite: bool,
    model_dir: str | os.PathLike[str] | None,
) -> None:
    """Write an index: into a hidden sibling first, renamed to `path` when it is complete and on disk."""
    target = Path(path).resolve()
    _refuse_existing(target, overwrite)
    staging = target.parent / f".{target.name}.{uuid4().hex}"
    try:
        staging.mkdir(parents=True)
        _write_codes(staging / "codes.npy", store)
        _write_json(staging / "ids.json", list(ids))
        if model_dir is not None:
            shutil.copytree(model_dir, staging / "model")
        _write_json(staging / "index.json", {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(header)})
        _swap(staging, target)
    except OSError as error:
        raise EigenmapError(f"cannot write the index {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def read(path: str | os.PathLike[str]) -> tuple[Header, NDArray[np.float32], list[str | int]]:
    """Read an index, its codes memory-mapped."""
    directory = Path(path)
    header = _read_header(directory)
    ids = _read_json(directory / "ids.json")
    wanted = ID_TYPES[header.id_type]
    if not isinstance(ids, list) or len(ids) != header.count or any(type(i) is not wanted for i in ids):
        raise EigenmapError(
            f"{directory / 'ids.json'} is damaged: it should list {header.count} ids of type {header.id_type}"
        )
    return header, _read_codes(directory / "codes.npy", header), ids


def _read_header(directory: Path) -> Header:
    file = directory / "index.json"
    if not file.is_file():
        what = "it has no index.json" if directory.is_dir() else "there is no such directory"
        raise EigenmapError(f"{directory} is not an index ({what}); make one with `eigenmap index`")
    entries = _read_json(file)
    if not isinstance(entries, dict) or entries.pop("format", None) != FORMAT:
        raise EigenmapError(f"{directory} is not an index (its index.json describes something else)")
    version = entries.pop("format_version", None)
    if version != FORMAT_VERSION:
        raise EigenmapError(
            f"{directory} has index format version {version!r}, but this eigenmap reads version "
            f"{FORMAT_VERSION}; make the index again with `eigenmap index`"
        )
    try:
        header = Header(**entries)
    except TypeError:
        header = None
    if header is None or not header.well_formed():
        raise EigenmapError(f"{file} is damaged; make the index again with `eigenmap index`")
    return header


def _read_codes(file: Path, header: Header) -> NDArray[np.float32]:
    shape = (header.count, header.n_components)
    try:
        codes: NDArray[np.float32] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise EigenmapError(
            f"{file} is missing, truncated or damaged (it should hold {shape[0]} codes of {shape[1]} features)"
        ) from error
    if codes.shape != shape or codes.dtype != np.float32 or not codes.flags.c_contiguous:
        raise EigenmapError(
            f"{file} holds a {codes.dtype} matrix of shape {codes.shape}, but index.json says float32 {shape}"
        )
    return codes


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise EigenmapError(f"{file} is missing, truncated or damaged") from error


def _write_codes(file: Path, store: CodeStore) -> None:
    # Plain writes, not a writable memory map: on a full disk they fail with an error, not with a signal.
    shape = (len(store), store.n_components)
    with file.open("wb") as stream:
        entry = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, entry)
        for _, block in store.blocks(store.n_components, _ROWS_AT_ONCE):
            stream.write(block.astype("<f4", copy=False).data)
        _sync(stream)


def _write_json(file: Path, content: object) -> None:
    # ASCII escapes keep any id, even the lone surrogates of file names that are not UTF-8.
    with file.open("w", encoding="ascii") as stream:
        json.dump(content, stream)
        _sync(stream)


def _sync(stream: IO[Any]) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _refuse_existing(target: Path, overwrite: bool) -> None:
    if not target.exists():
        return
    if not overwrite:
        raise EigenmapError(f"{target} exists already; choose another place or ask to overwrite it")
    # Overwriting removes what was there: never anything but an index.
    if not (target / "index.json").is_file():
        raise EigenmapError(f"{target} exists and is not an index, so it is not overwritten; choose another place")


def _swap(staging: Path, target: Path) -> None:
    """Put the finished directory in its place; an index that was there survives unless this succeeds."""
    retired = target.parent / f"{staging.name}.old"
    if target.exists():
        target.replace(retired)
    try:
        staging.replace(target)
    except OSError:
        if retired.exists():
            retired.replace(target)
        raise
    shutil.rmtree(retired, ignore_errors=True)
