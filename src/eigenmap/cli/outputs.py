"""Output files of the verbs: validated before anything is computed, and written atomically."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING
from zipfile import ZipFile

from eigenmap.core.addresses import require_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_write, json_bytes, make_folder, require_writable
from eigenmap.core.folders import is_empty_folder

if TYPE_CHECKING:
    from eigenmap.model import Codes


def check_file(path: Path, force: bool) -> None:
    """Refuse a file that exists (unless `force`) or cannot be written; nothing is created."""
    require_path(path)
    if path.is_dir():
        raise EigenmapError(f"{path} is a folder; give a file name for the output.")
    if path.exists() and not force:
        raise EigenmapError(f"{path} exists; choose another name, or use --force to replace it.")
    require_writable(path)


def check_files(force: bool, *paths: Path | None) -> None:
    """Apply `check_file` to every path that is not None."""
    for path in paths:
        if path is not None:
            check_file(path, force)


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


def write_codes(out: Path, shape: tuple[int, int], codes: Iterable[Codes]) -> None:
    """Write blocks of codes as one .npy or .npz file, and remove names that belong to earlier codes."""
    from eigenmap.embedding.files import names_file, remove_names, write_matrix

    with atomic_output(out) as file:
        if out.suffix == ".npy":
            write_matrix(file, shape, codes)
        else:
            with ZipFile(file, "w") as archive, archive.open("codes.npy", "w", force_zip64=True) as member:
                write_matrix(member, shape, codes)
        remove_names(names_file(out))
