"""Files that a verb writes: refused before anything is computed, and written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING
from uuid import uuid4

from eigenmap.errors import EigenmapError
from eigenmap.files import require_writable

if TYPE_CHECKING:
    from eigenmap.model import Codes


def check_file(path: Path, force: bool) -> None:
    """Refuse a file that exists (unless `force`) or that cannot be written; nothing is created."""
    if path.is_dir():
        raise EigenmapError(f"{path} is a folder; name a file for the output.")
    if path.exists() and not force:
        raise EigenmapError(f"{path} exists; choose another name, or use --force to replace it.")
    require_writable(path)


def check_index(path: Path, force: bool) -> None:
    """Refuse a folder that exists (unless `force`, and it is an index) or that cannot be written."""
    if path.exists() and not (path / "index.json").is_file():
        raise EigenmapError(f"{path} exists and is not an index; choose another name.")
    if path.exists() and not force:
        raise EigenmapError(f"{path} exists; choose another name, or use --force to replace it.")
    require_writable(path)


def check_codes(path: Path, force: bool) -> None:
    """Refuse a folder that exists (unless `force`, and it holds codes) or that cannot be written."""
    from eigenmap.embedding.shards import Codebook

    if path.exists() and not Codebook.is_at(path):
        raise EigenmapError(f"{path} exists and is not a folder of codes; choose another name.")
    if path.exists() and not force:
        raise EigenmapError(f"{path} exists; choose another name, or use --force to replace it.")
    require_writable(path)


def as_json(content: object) -> bytes:
    """The content of a JSON file; ASCII escapes keep any file name, also one that is not UTF-8."""
    return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode("ascii")


def write_json(path: Path, content: object) -> None:
    """Write a JSON file."""
    with written(path) as file:
        file.write(as_json(content))


def write_matrix(file: IO[bytes], shape: tuple[int, int], blocks: Iterable[Codes]) -> None:
    """Write blocks of rows as the .npy file that they would make together, which need never be in memory."""
    from numpy.lib.format import write_array_header_1_0

    write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    for block in blocks:
        file.write(block.astype("<f4").tobytes())


@contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its place at `path` only when the block has ended well.

    with written(Path("codes.npy")) as file:
        np.save(file, codes)
    """
    partial = path.with_name(f".{path.name}.{uuid4().hex}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise EigenmapError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):  # where nothing can be written, nothing can be removed
            partial.unlink()
