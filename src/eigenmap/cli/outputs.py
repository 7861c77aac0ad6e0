"""Output files of the verbs: validated before anything is computed, and written atomically."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING
from zipfile import ZipFile

from eigenmap.core.addresses import require_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_write, json_bytes, make_folder, refuse_device, require_writable, write_json
from eigenmap.core.folders import is_empty_folder

if TYPE_CHECKING:
    from eigenmap.model import Codes

VITAL = ("model.json", "model.safetensors", "checkpoint.pt", "metrics.jsonl")
"""Files without which a folder is no model or run; of an index, every file counts."""


def check_file(path: Path, force: bool, reads: Iterable[str | Path | None] = ()) -> None:
    """Refuse a file that exists (unless `force`), that the command reads, or that cannot be written; create nothing."""
    require_path(path)
    if path.is_dir():
        raise EigenmapError(f"{path} is a folder; give a file name for the output.")
    refuse_device(path)
    if path.exists() and not force:
        raise EigenmapError(f"{path} exists; choose another name, or use --force to replace it.")
    refuse_inputs(path, reads)
    require_writable(path)


def check_files(force: bool, *paths: Path | None, reads: Iterable[str | Path | None] = ()) -> None:
    """Apply `check_file` to every path that is not None."""
    for path in paths:
        if path is not None:
            check_file(path, force, reads)


def figure_files(out: Path) -> tuple[Path, list[Path]]:
    """Return the stem of a figure's files, and the files: STEM.svg and STEM.png."""
    if not out.name:
        raise EigenmapError(f"{out} is a folder; give a file name for the figure.")
    stem = out.with_suffix("") if out.suffix in (".svg", ".png") else out
    return stem, [stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "png")]


def refuse_inputs(path: Path, reads: Iterable[str | Path | None]) -> None:
    """Refuse to replace a file that the command reads, or one without which a folder that it reads is worthless."""
    is_vital = path.name in VITAL or (path.parent / "index.json").exists()
    places = [path, path.parent] if is_vital else [path]
    for given in (Path(place) for place in reads if place is not None):
        if path.is_file() and given.exists() and any(place.samefile(given) for place in places):
            raise EigenmapError(f"{path} is an input of this command, or a part of one; choose another name.")


def check_index(path: Path, force: bool) -> None:
    """Refuse a folder that exists (unless empty, or an index and `force`) or cannot be written."""
    require_path(path)
    is_there = path.exists() and not is_empty_folder(path)
    if is_there and not (path / "index.json").is_file():
        raise EigenmapError(f"{path} exists and is not an index; choose another name.")
    if is_there and not force:
        raise EigenmapError(f"{path} exists; choose another name, or use --force to replace it.")
    require_writable(path)


def write_json_output(path: Path, content: object) -> None:
    """Write a readable JSON file."""
    with atomic_output(path) as file:
        file.write(json_bytes(content, indent=2))


@contextmanager
def atomic_output(path: Path) -> Iterator[IO[bytes]]:
    """Write a file atomically, creating its folder if necessary.

    with atomic_output(Path("codes.npy")) as file:
        np.save(file, codes)
    """
    try:
        make_folder(path.parent)
    except OSError as error:
        raise EigenmapError(f"{path} cannot be written: {error.strerror or error}.") from error
    with atomic_write(path) as file:
        yield file


def write_codes(out: Path, shape: tuple[int, int], codes: Iterable[Codes], names: Sequence[str] | None = None) -> None:
    """Write blocks of codes as one .npy or .npz file with the names of the rows, if they have any.

    Names that belong to earlier codes are removed before these are replaced.
    """
    import numpy as np

    from eigenmap.embedding.files import names_file, remove_names, write_matrix

    beside = names_file(out)
    with atomic_output(out) as file:
        if out.suffix == ".npy":
            write_matrix(file, shape, codes)
        else:
            with ZipFile(file, "w") as archive:
                with archive.open("codes.npy", "w", force_zip64=True) as member:
                    write_matrix(member, shape, codes)
                if names is not None:
                    with archive.open("ids.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, np.array(names, dtype=np.str_), allow_pickle=False)
        remove_names(beside)
    if beside is not None and names is not None:
        write_json(beside, list(names))


def write_code_table(out: Path, names: Sequence[str], codes: Iterable[Codes], fingerprint: str) -> None:
    """Write blocks of codes as a Parquet file with the columns id and code."""
    from eigenmap.data.parquet import parquet_module
    from eigenmap.embedding.shards import FINGERPRINT, code_table

    pq = parquet_module()
    with atomic_output(out) as file:
        writer, done = None, 0
        for block in codes:
            table = code_table(names[done : done + len(block)], block, {FINGERPRINT: fingerprint})
            if writer is None:
                writer = pq.ParquetWriter(file, table.schema)
            writer.write_table(table)
            done += len(block)
        if writer is not None:
            writer.close()
