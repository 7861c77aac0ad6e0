"""Writing files: whole or not at all, and only where that is possible."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from uuid import uuid4

from eigenmap.errors import EigenmapError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A hidden sibling to write to; it takes its place at `path` when the block has ended well, and else is gone.

    with whole(Path("model.json")) as partial:
        partial.write_text("{}")
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when it is complete and on disk; several may be begun at once.

    with whole_file(Path("codes.npy")) as file:
        np.save(file, codes)
    """
    partial = path.with_name(f".{path.name}.{uuid4().hex}.partial")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise EigenmapError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # where nothing can be written, nothing can be removed
            partial.unlink()


def require_writable(path: Path) -> None:
    """Refuse a path at which no file can be made, by making one in the nearest folder there is and removing it."""
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise EigenmapError(f"{path} cannot be written: {nearest}: {error.strerror}.") from None
