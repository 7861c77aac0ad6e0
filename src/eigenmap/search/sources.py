"""Sources of the images in an index, so that images of the same name from two folders become two items.

The id of an image is its name in its folder. If another folder has already used that name, the id is prefixed with the
name of the folder: `camera2/IMG_0001.jpg`. Items record their source in their metadata (`source`, and `file` if the id
is not the name); those of the first source do not. `sources.json` lists the folders:

    {"sources": [["camera1", "/media/camera1"], ["camera2", "/media/camera2"]]}

so that adding the same folder again finds its own items. An index of an earlier version has no such list; its first
entry becomes [null, null] if the added folder is not recognised as the one it was made from (`adding`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from eigenmap.core.errors import EigenmapError
from eigenmap.search.backend import Id, Metadata

SOURCES_NOTE = "sources"
SOURCE, FILE = "source", "file"
"""Metadata fields."""

Known: TypeAlias = Callable[[Sequence[Id]], Mapping[Id, Metadata]]
"""Returns the metadata of those ids that exist."""


class Placed(NamedTuple):
    """An image of a source with its item."""

    id: str
    own: bool
    """True if the item already exists and was made from this image."""
    taken: bool
    """True if an item of another source has the id."""
    metadata: dict[str, str]
    """Metadata that records the source."""


@dataclass(frozen=True)
class Sources:
    """Sources of an index: (name, place) in the order of addition."""

    entries: tuple[tuple[str | None, str | None], ...] = ()

    @classmethod
    def from_json(cls, note: Mapping[str, Any] | None) -> Sources:
        """Parse the values of `as_json`; an index without them has one unknown source."""
        if note is None:
            return cls(((None, None),))
        try:
            entries = tuple((name, place) for name, place in note["sources"])
        except (KeyError, TypeError, ValueError) as error:
            raise EigenmapError("sources.json of the index is damaged; restore it from a copy") from error
        return cls(entries)

    @property
    def first_is_unknown(self) -> bool:
        """True if the first source was not recorded."""
        return self.entries == ((None, None),)

    def as_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` accepts."""
        return {"sources": [list(entry) for entry in self.entries]}

    def with_source(self, source: Path) -> tuple[Sources, IndexSource]:
        """Return these sources including `source`, and its entry.

        >>> sources, first = Sources().with_source(Path("no/such/camera"))
        >>> sources.with_source(Path("other/camera"))[1].name
        'camera-2'
        """
        place = place_of(source)
        for name, known in self.entries:
            if name is not None and known == str(place):
                return self, IndexSource(name, self._first)
        names = {name for name, _ in self.entries}
        stem = place.name or "images"
        chosen = next(name for n in count(1) if (name := stem if n == 1 else f"{stem}-{n}") not in names)
        more = Sources((*self.entries, (chosen, str(place))))
        return more, IndexSource(chosen, more._first)

    @property
    def _first(self) -> str | None:
        return self.entries[0][0]


@dataclass(frozen=True)
class IndexSource:
    """One source of an index."""

    name: str
    first: str | None
    """Name of the first source, whose items do not record it; None if unknown."""

    def placed(self, files: Sequence[str], known: Known) -> list[Placed]:
        """Return the items of these images: existing ones, or else free ids."""
        found: dict[str, Placed] = {}
        free: dict[str, str] = {}
        claimed: set[str] = set()
        taken: set[str] = set()
        for level in count():
            waiting = [file for file in files if file not in found]
            there = known([self._id(file, level) for file in waiting])
            for file in waiting:
                name = self._id(file, level)
                if name in there:
                    if self._owns(there[name], name, file):
                        found[file] = Placed(name, True, False, self.metadata(name, file))
                    elif level == 0:
                        taken.add(file)
                elif file not in free and name not in claimed:
                    free[file] = name
                    claimed.add(name)
            if level and all(file in free or file in found for file in waiting):
                break
        for file in files:
            if file not in found:
                found[file] = Placed(free[file], False, file in taken, self.metadata(free[file], file))
        return [found[file] for file in files]

    def _id(self, file: str, level: int) -> str:
        """Return the candidate id: the name, then prefixed by the source, then by the source and a number."""
        return file if level == 0 else f"{self.name}/{file}" if level == 1 else f"{self.name}-{level}/{file}"

    def _owns(self, item: Metadata, name: str, file: str) -> bool:
        return item.get(SOURCE, self.first) == self.name and item.get(FILE, name) == file

    def metadata(self, name: str, file: str) -> dict[str, str]:
        """Return the metadata that records the source of the item with this id."""
        source = {} if self.name == self.first else {SOURCE: self.name}
        return source if name == file else {SOURCE: self.name, FILE: file}


def place_of(source: Path) -> Path:
    """Return the path that identifies a source: its absolute path, or for a single image that of its folder."""
    place = source.expanduser().resolve()
    arrays = (".npy", ".npz", ".parquet")
    return place.parent if place.is_file() and place.suffix.lower() not in arrays else place
