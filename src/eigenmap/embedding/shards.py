"""Sharded codes on disk.

    _embedding.json        model, length and number of codes, skipped images, and the size and
                          checksum of every other file
    part-00000.parquet    columns id (text) and code (a list of `dim` float32)
    part-00001.parquet    ...

or, in NumPy format, `part-00000.npy` and `part-00000.ids.json`.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from eigenmap.core.arguments import a_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_write, json_bytes, open_regular, parse_json, read_json, write_json
from eigenmap.data.npy import read_npy
from eigenmap.data.parquet import parquet_module
from eigenmap.embedding.blocks import Block
from eigenmap.embedding.checksums import Checksum
from eigenmap.model import Codes

MANIFEST = "_embedding.json"  # readers of Parquet folders skip names that start with an underscore
FINGERPRINT = "eigenmap_fingerprint"
"""Key in the metadata of a Parquet file: the model that made its codes."""

_KIND, _VERSION = "eigenmap-codes", 1
_PART = re.compile(r"part-\d+\.(parquet|npy|ids\.json)")

Checksums = dict[str, Checksum]
"""Checksum of every file, by name."""


@dataclass(frozen=True)
class Plan:
    """Specification of an embedding. Two runs with the same plan make the same shards."""

    fingerprint: str
    dim: int
    images: int
    digest: str
    shard_size: int
    files: str

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-self.images // self.shard_size)


def shard_files(plan: Plan, number: int) -> list[str]:
    """Return the file names of a shard."""
    return [
        f"part-{number:05d}.{ending}" for ending in (("parquet",) if plan.files == "parquet" else ("npy", "ids.json"))
    ]


def write_shard(folder: Path, plan: Plan, number: int, block: Block) -> Checksums:
    """Write the files of a shard durably, each one atomically."""
    checksums = {}
    for name in shard_files(plan, number):
        with atomic_write(folder / name) as file:
            if name.endswith(".parquet"):
                metadata = {FINGERPRINT: plan.fingerprint}
                parquet_module().write_table(code_table(block.ids, block.codes, metadata), file)
            elif name.endswith(".npy"):
                np.save(file, block.codes)
            else:
                file.write(json_bytes(block.ids))
            checksums[name] = Checksum.of(file)
    return checksums


@dataclass(frozen=True)
class Codebook:
    """A finished folder of codes, read shard by shard; every file is verified against its checksum.

    >>> for ids, codes in Codebook.open("codes/"): ...  # doctest: +SKIP
    """

    path: Path
    plan: Plan
    images: int
    skipped: list[tuple[str, str]]
    checksums: Checksums | None = None
    """None in folders written by versions without checksums."""

    @classmethod
    def open(cls, path: str | Path) -> Codebook:
        """Open a folder of codes by its `_embedding.json`."""
        path = a_path(path, "path")
        try:
            about = read_json(path / MANIFEST) if cls.is_at(path) else None
        except (OSError, ValueError) as error:
            raise EigenmapError(f"{path / MANIFEST} is damaged or cannot be read: {error}") from error
        if not isinstance(about, dict) or about.get("kind") != _KIND or about.get("version") != _VERSION:
            raise EigenmapError(f"{path} is not a finished folder of codes; `eigenmap embed` writes one")
        try:
            if {"checksum", "files"} & about.keys() and about.pop("checksum") != _own_checksum(about):
                raise ValueError("its checksum does not match")
            return cls(
                path,
                _checked_plan(Plan(**about["plan"])),
                json_integer(about["images"], 0),
                [(str(name), str(reason)) for name, reason in about["skipped"]],
                checksums_from_json(about["files"]) if "files" in about else None,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EigenmapError(f"{path / MANIFEST} is damaged; embed the images again") from error

    def write_description(self) -> None:
        """Write `_embedding.json`, which marks the folder as complete."""
        about = {
            "kind": _KIND,
            "version": _VERSION,
            "plan": asdict(self.plan),
            "images": self.images,
            "skipped": [list(pair) for pair in self.skipped],
            "files": {name: checksum._asdict() for name, checksum in (self.checksums or {}).items()},
        }
        write_json(self.path / MANIFEST, about | {"checksum": _own_checksum(about)})

    @staticmethod
    def is_at(path: Path) -> bool:
        """Tell whether a folder contains finished codes."""
        return (path / MANIFEST).is_file()

    def verify(self) -> bool:
        """Compare every file with its size and checksum; raise an EigenmapError naming the first damaged one.

        Returns:
            False if the folder has no checksums because an earlier version wrote it. In that case only readability and
            the number of images were checked.

        """
        rows = 0
        for number, (ids, codes) in enumerate(self):
            if not np.isfinite(codes).all():
                raise self._damaged(shard_files(self.plan, number)[0], "it contains values that are not finite")
            rows += len(ids)
        if rows != self.images:
            raise EigenmapError(f"{self.path} has {rows:,} codes instead of {self.images:,}; embed the images again")
        known = {name for number in range(self.plan.shards) for name in shard_files(self.plan, number)}
        for path in sorted(self.path.iterdir()):
            if _PART.fullmatch(path.name) and path.name not in known:
                raise EigenmapError(f"{path} does not belong to {self.path}; remove it")
        return self.checksums is not None

    def __len__(self) -> int:
        return self.images

    def __iter__(self) -> Iterator[tuple[list[str], Codes]]:
        """Yield (names, codes) for every shard."""
        for number in range(self.plan.shards):
            yield self._shard(*shard_files(self.plan, number))

    def _shard(self, name: str, names: str | None = None) -> tuple[list[str], Codes]:
        if names is None:
            with self._file(name) as file:
                ids, codes = _from_parquet(file, self.plan.dim)
        else:
            with self._file(name) as file:
                codes = read_npy(file)
            with self._file(names) as file:
                ids = parse_json(file.read())
        if not (isinstance(ids, list) and all(isinstance(ident, str) for ident in ids)):
            raise self._damaged(names or name, "its names are not text")
        if codes.dtype != np.float32 or codes.shape != (len(ids), self.plan.dim):
            raise self._damaged(name, f"it should contain {len(ids):,} codes of {self.plan.dim} features")
        return ids, codes

    @contextmanager
    def _file(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file whose size and checksum match; any failure to read it becomes one clear error."""
        try:
            with os.fdopen(open_regular(self.path / name, follow=True), "rb") as file:
                if self.checksums is not None:
                    _compare(file, self.checksums.get(name))
                yield file
        except EigenmapError:
            raise
        except Exception as error:  # NumPy and Arrow raise almost anything on a damaged file
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise self._damaged(name, reason) from error

    def _damaged(self, name: str, reason: str) -> EigenmapError:
        first_line = (reason.strip().splitlines() or ["it cannot be read"])[0]
        return EigenmapError(f"{name} in {self.path} is missing or damaged: {first_line}")


def _compare(file: IO[bytes], expected: Checksum | None) -> None:
    if expected is None:
        raise ValueError(f"{MANIFEST} does not list it")
    size = os.fstat(file.fileno()).st_size
    if size != expected.size:
        raise ValueError(f"it has {size:,} bytes instead of {expected.size:,}")
    if Checksum.of(file) != expected:
        raise ValueError("its checksum does not match")


def _from_parquet(file: IO[bytes], dim: int) -> tuple[list[str], Codes]:
    table = parquet_module().ParquetFile(file).read()
    flat = table["code"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return table["id"].to_pylist(), flat.reshape(len(table), dim)


def _checked_plan(plan: Plan) -> Plan:
    for number in (plan.dim, plan.images, plan.shard_size):
        json_integer(number, 1)
    if plan.files not in ("parquet", "npy"):
        raise ValueError(f"unknown file format {plan.files!r}")
    return plan


def checksums_from_json(files: Mapping[str, Mapping[str, Any]]) -> Checksums:
    """Parse checksums from JSON; raise ValueError, KeyError, TypeError or AttributeError if they are malformed."""
    return {name: Checksum(json_integer(entry["size"], 0), str(entry["crc32"])) for name, entry in files.items()}


def json_integer(number: object, least: int) -> int:
    """Return a whole number read from JSON; raise ValueError if it is not one or is less than `least`."""
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise ValueError(f"{number!r} is not a whole number of at least {least}")
    return number


def _own_checksum(about: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(about, sort_keys=True).encode('ascii')):08x}"


def code_table(ids: Sequence[str | int], codes: Codes, metadata: dict[str, str]) -> Any:
    """Return an Arrow table with the columns id and code, a fixed-size list of float32."""
    import pyarrow as pa

    names = [utf8_name(name) if isinstance(name, str) else name for name in ids]
    id_type = pa.int64() if names and isinstance(names[0], int) else pa.string()
    flat = pa.array(np.ascontiguousarray(codes, np.float32).reshape(-1))
    column = pa.FixedSizeListArray.from_arrays(flat, codes.shape[1])
    schema = pa.schema([("id", id_type), ("code", column.type)], metadata=metadata)
    return pa.table([pa.array(names, id_type), column], schema=schema)


def utf8_name(name: str) -> str:
    r"""Return a name as text that any program accepts: bytes that are not UTF-8 become \xff."""
    try:
        stored = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # not the name of a file, but an id with half of a surrogate pair
        stored = name.encode("utf-8", "surrogatepass")
    return stored.decode("utf-8", "backslashreplace")
