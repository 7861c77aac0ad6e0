"""Index description: the `index.json` that identifies a directory as an index."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import parse_json
from eigenmap.core.folders import recover
from eigenmap.search.backend import IndexSpec
from eigenmap.search.open_folder import OpenFolder

INDEX_FORMAT = "eigenmap-index"
FORMAT_VERSION = 3
_READ_VERSIONS = (2, 3)

Used = TypeVar("Used")

_ATTEMPTS = 3

CREATE = "create one with CodeIndex(where=PATH)"
AGAIN = "rebuild the index with `eigenmap index`"
RESTORE = f"restore it from a copy, or {AGAIN}"


def use_at(path: Path, use: Callable[[], Used]) -> Used:
    """Call `use` on the index at a path, retrying while the path is missing between the renames of a replacement."""
    for _ in range(_ATTEMPTS):
        try:
            return use()
        except FileNotFoundError:  # noqa: PERF203 - rare
            with suppress(OSError):
                recover(path.resolve())
    return use()


def is_replaced(folder: OpenFolder, path: Path) -> bool:
    """Tell whether another directory is at the path; between the renames of a replacement, its end is awaited."""
    for _ in range(_ATTEMPTS):
        here = folder.is_at(path)
        if here is not None:
            return not here
        with suppress(OSError):
            recover(path.resolve())
    return folder.is_at(path) is False


def open_index_folder(path: Path) -> OpenFolder:
    """Open the directory at a path."""
    try:
        return use_at(path, lambda: OpenFolder(path))
    except (FileNotFoundError, NotADirectoryError):
        what = "it is a file" if path.exists() else "no such directory"
        raise EigenmapError(f"{path} is not an index ({what}); {CREATE}") from None
    except OSError as error:
        raise EigenmapError(f"{path} cannot be read: {error.strerror}") from error


def read_spec(folder: OpenFolder) -> IndexSpec:
    """Read the description of the index in a directory."""
    path = folder.path
    try:
        entries = parse_json(folder.read("index.json"))
    except FileNotFoundError:
        what = "it is a model" if (path / "model.json").is_file() else "it has no index.json"
        raise EigenmapError(f"{path} is not an index ({what}); {CREATE}") from None
    except (OSError, ValueError) as error:
        raise EigenmapError(f"{path / 'index.json'} is missing, truncated or damaged; {RESTORE}") from error
    if not isinstance(entries, dict) or entries.pop("format", None) != INDEX_FORMAT:
        raise EigenmapError(f"{path} is not an index (its index.json describes something else)")
    version = entries.pop("format_version", None)
    if version not in _READ_VERSIONS:
        raise EigenmapError(
            f"{path} has index format version {version!r}, but this eigenmap reads version {FORMAT_VERSION}; {AGAIN}"
        )
    try:
        return IndexSpec.from_json(entries)
    except (TypeError, ValueError) as error:
        raise EigenmapError(f"{path / 'index.json'} is damaged; {RESTORE}") from error


def spec_bytes(about: IndexSpec) -> bytes:
    """Return the content of `index.json`."""
    return json.dumps({"format": INDEX_FORMAT, "format_version": FORMAT_VERSION, **about.as_json()}).encode("ascii")
