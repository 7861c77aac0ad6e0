"""Mapping from an item to its file in a folder, for indexes built from several folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eigenmap.core.errors import EigenmapError, ReplacedError
from eigenmap.search.backend import Backend, Id, KeepsNotes, Metadata
from eigenmap.search.sources import FILE, SOURCE, SOURCES_NOTE, Sources, place_of


class Originals:
    """Items of an index that come from one source folder.

    A folder that the index does not know is assumed to be its first source, moved elsewhere.

    >>> sources = Sources((("one", "/one"), ("two", "/two")))
    >>> first, second = (Originals(sources, Path(folder)) for folder in ("/one", "/two"))
    >>> first.file_of("a.jpg", {}), first.file_of("two/a.jpg", {"source": "two", "file": "a.jpg"})
    ('a.jpg', None)
    >>> second.file_of("a.jpg", {}), second.file_of("two/a.jpg", {"source": "two", "file": "a.jpg"})
    (None, 'a.jpg')
    """

    def __init__(self, sources: Sources, folder: Path) -> None:
        place = str(place_of(folder))
        self._names = {name for name, _ in sources.entries}
        self._first = sources.entries[0][0] if sources.entries else None
        self._own = next((name for name, known in sources.entries if known == place), self._first)

    def file_of(self, name: Id, known: Metadata) -> str | None:
        """Return the item's file name within the folder, or None if the item came from elsewhere."""
        source = known.get(SOURCE)
        if source is None or source not in self._names:  # no source recorded, or the user's own metadata field
            return str(name) if self._own == self._first else None
        return str(known.get(FILE, name)) if source == self._own else None


class NotedOriginals:
    """Like `Originals`, but follows the sources recorded in an index, which may gain folders while it is open.

    If the record is damaged, no item has a file: a thumbnail is better than the wrong picture.
    """

    def __init__(self, index: Backend, folder: Path) -> None:
        self._index = index
        self._folder = folder
        self._last: tuple[dict[str, Any] | None, Originals] | None = None

    def file_of(self, name: Id, known: Metadata) -> str | None:
        """Return the item's file name within the folder, or None if the item came from elsewhere."""
        try:
            return self._now().file_of(name, known)
        except ReplacedError:
            raise
        except EigenmapError:
            return None

    def _now(self) -> Originals:
        note = self._index.read_note(SOURCES_NOTE, required=True) if isinstance(self._index, KeepsNotes) else None
        last = self._last
        if last is None or last[0] != note:
            self._last = last = note, Originals(Sources.from_json(note), self._folder)
        return last[1]
