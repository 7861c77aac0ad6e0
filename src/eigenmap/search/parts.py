"""Parts of an index beside its items: the model, small pictures, the note of its sources.

`parts.json` says which of them the index was made with, so that one that goes missing is noticed:

    {"parts": ["model", "sources.json", "thumbnails.sqlite"]}

An index of an earlier version has no such note until something is added to it. No part may be a symbolic link, since
an index that somebody else made could then lead anywhere.
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
    """Note the parts that are there now, beside those that were noted before."""
    try:
        noted = noted_parts(directory)
    except EigenmapError:
        noted = frozenset()  # damaged: `verify` has said so, and what is there is noted anew
    there = noted | _PARTS.intersection(directory.folder.names())
    if there != noted:
        directory.write_note(PARTS_NOTE, {"parts": sorted(there)})


def noted_parts(directory: Directory) -> frozenset[str]:
    """The parts that the index was made with, as far as that was noted."""
    note = directory.read_note(PARTS_NOTE, required=True) or {"parts": []}
    parts = note.get("parts")
    if not isinstance(parts, list) or not _PARTS.issuperset(map(str, parts)):
        raise EigenmapError(f"{directory.path / PARTS_NOTE}.json is damaged; restore it from a copy, or remove it")
    return frozenset(parts)


def model_in(index: Path) -> Path | None:
    """The folder of the model in an index, None if it has none."""
    folder = index / MODEL
    if folder.is_symlink():
        raise EigenmapError(f"{folder} is a symbolic link, which is not followed; put a copy of the model in its place")
    return folder if folder.is_dir() else None


def require_own(file: Path) -> None:
    """Refuse a file of an index that is there and is a link, or anything but a regular file."""
    try:
        mode = file.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise EigenmapError(f"{file} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        what = "a symbolic link, which is not followed" if stat.S_ISLNK(mode) else "no regular file"
        raise EigenmapError(f"{file} is {what}; remove it, and put the file itself in its place")
