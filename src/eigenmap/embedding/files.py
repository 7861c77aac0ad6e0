"""Output as one file: codes.npy with names beside it, codes.npz, or codes.parquet."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import numpy as np

from eigenmap.core.files import atomic_write, sync_directory, write_json
from eigenmap.data.parquet import parquet_module
from eigenmap.embedding.shards import FINGERPRINT, Codebook, code_table
from eigenmap.model import Codes

SUFFIXES = (".npy", ".npz", ".parquet")


def names_file(out: Path) -> Path | None:
    """Return the file for image names: beside an .npy file, None for formats that contain them."""
    return out.with_suffix(".ids.json") if out.suffix == ".npy" else None


def remove_names(names: Path | None) -> None:
    """Remove the names of codes that are about to be replaced, so that names never belong to other codes."""
    if names is not None and names.exists():
        names.unlink()
        sync_directory(names.parent)


def join_shards(shards: Codebook, suffix: str, out: Path, names: Path) -> None:
    """Write one file from all shards, reading one at a time; the names of an .npy file go to `names`."""
    if suffix == ".parquet":
        _join_parquet(shards, out)
    elif suffix == ".npz":
        with atomic_write(out) as file, zipfile.ZipFile(file, "w", allowZip64=True) as archive:
            with archive.open("codes.npy", "w", force_zip64=True) as member:
                _write_codes(member, shards)
            with archive.open("ids.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.array(_names(shards), dtype=np.str_), allow_pickle=False)
    else:
        with atomic_write(out) as file:
            _write_codes(file, shards)
        write_json(names, _names(shards))


def _names(shards: Codebook) -> list[str]:
    return [name for ids, _ in shards for name in ids]


def write_matrix(file: IO[bytes], shape: tuple[int, int], blocks: Iterable[Codes]) -> None:
    """Write blocks of rows as one .npy file without holding all of them in memory."""
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    for block in blocks:
        file.write(block.astype("<f4", copy=False).tobytes())


def _write_codes(file: IO[bytes], shards: Codebook) -> None:
    write_matrix(file, (len(shards), shards.plan.dim), (codes for _, codes in shards))


def _join_parquet(shards: Codebook, out: Path) -> None:
    pq = parquet_module()
    metadata = {FINGERPRINT: shards.plan.fingerprint}
    schema = code_table([], np.empty((0, shards.plan.dim), np.float32), metadata).schema
    with atomic_write(out) as file, pq.ParquetWriter(file, schema) as writer:
        for ids, codes in shards:
            writer.write_table(code_table(ids, codes, metadata))
