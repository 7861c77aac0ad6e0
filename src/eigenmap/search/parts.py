"""Parts of an index besides its items: model, thumbnails, record of sources.

`parts.json` lists the parts of the index, so that a missing one is detected:

    {"parts": ["model", "sources.json", "thumbnails.sqlite"]}

An index of an earlier version has no such list until something is added to it. No part may be a symbolic link, since an
index from another person could then point anywhere.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from eigenmap.core.errors import EigenmapError

if TYPE_CHECKING:
    from eigenmap.search.directory import Directory

PARTS_NOTE = "parts"
MODEL, PICTURES = "model", "thumbnails.sqlite"
_PARTS = frozenset({MODEL, PICTURES, "sources.json"})


def note_parts(directory: Directory) -> None:
    """Record the parts that exist now, in addition to those recorded before."""
    try:
        noted = noted_parts(directory)
    except EigenmapError:
        noted = frozenset()  # damaged: `verify` reports it, and the existing parts are recorded again
    there = noted | _PARTS.intersection(directory.folder.names())
    if there != noted:
        directory.write_note(PARTS_NOTE, {"parts": sorted(there)})


def noted_parts(directory: Directory) -> frozenset[str]:
    """Return the recorded parts of the index."""
    note = directory.read_note(PARTS_NOTE, required=True) or {"parts": []}
    parts = note.get("parts")
    if not isinstance(parts, list) or not _PARTS.issuperset(map(str, parts)):
        raise EigenmapError(f"{directory.path / PARTS_NOTE}.json is damaged; restore it from a copy, or remove it")
    return frozenset(parts)


def model_in(index: Path) -> Path | None:
    """Return the model folder in an index, or None."""
    folder = index / MODEL
    if folder.is_symlink():
        raise EigenmapError(f"{folder} is a symbolic link, which is not followed; replace it by a copy of the model")
    return folder if folder.is_dir() else None


def require_own(file: Path) -> None:
    """Refuse a file of an index that is a link or otherwise not a regular file."""
    try:
        mode = file.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise EigenmapError(f"{file} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        what = "a symbolic link, which is not followed" if stat.S_ISLNK(mode) else "not a regular file"
        raise EigenmapError(f"{file} is {what}; replace it by the file itself")
