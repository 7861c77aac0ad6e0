"""Where the images of an index came from, so that images of two folders with the same name become two items.

The id of an image is its name in its folder. Where another folder has given an item that name already, the id begins
with the name of the folder: `camera2/IMG_0001.jpg`. Items say in their metadata which source they are from (`source`,
and `file` where the id is not the name); those of the first source say nothing. `sources.json` has the places:

    {"sources": [["camera1", "/media/camera1"], ["camera2", "/media/camera2"]]}

so that adding the same folder again finds its own items. An index of an earlier version has no such note; its first
entry becomes [null, null] if the folder that is added is not recognised as the one that it was made of (`adding`).
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
"""Names of metadata."""

Known: TypeAlias = Callable[[Sequence[Id]], Mapping[Id, Metadata]]
"""What is known of those of some ids that are there."""


class Placed(NamedTuple):
    """An image of a source, and its item."""

    id: str
    own: bool
    """Whether the item is there already, from this very image."""
    taken: bool
    """Whether an item of another source has the id."""
    metadata: dict[str, str]
    """What the item says of its source."""


@dataclass(frozen=True)
class Sources:
    """The sources of an index: (name, place) in the order in which they were added."""

    entries: tuple[tuple[str | None, str | None], ...] = ()

    @classmethod
    def from_json(cls, note: Mapping[str, Any] | None) -> Sources:
        """What `as_json` wrote; an index without such a note has one source that is not known."""
        if note is None:
            return cls(((None, None),))
        try:
            entries = tuple((name, place) for name, place in note["sources"])
        except (KeyError, TypeError, ValueError) as error:
            raise EigenmapError("sources.json of the index is damaged; restore it from a copy") from error
        return cls(entries)

    @property
    def first_is_unknown(self) -> bool:
        """Whether nobody noted what the index was made of."""
        return self.entries == ((None, None),)

    def as_json(self) -> dict[str, Any]:
        """Plain values, from which `from_json` makes the same."""
        return {"sources": [list(entry) for entry in self.entries]}

    def with_source(self, source: Path) -> tuple[Sources, IndexSource]:
        """These sources with one more, if it is not among them, and that one.

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
    """The source of items that name none."""

    def placed(self, files: Sequence[str], known: Known) -> list[Placed]:
        """The items of these images: those that are there, or else ids that are free."""
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
        """The name, then the name behind that of the source, then behind numbers of it."""
        return file if level == 0 else f"{self.name}/{file}" if level == 1 else f"{self.name}-{level}/{file}"

    def _owns(self, item: Metadata, name: str, file: str) -> bool:
        return item.get(SOURCE, self.first) == self.name and item.get(FILE, name) == file

    def metadata(self, name: str, file: str) -> dict[str, str]:
        """What the item with this id says of its source."""
        source = {} if self.name == self.first else {SOURCE: self.name}
        return source if name == file else {SOURCE: self.name, FILE: file}


def place_of(source: Path) -> Path:
    """What tells one source from another: its absolute path, and for a single image that of its folder."""
    place = source.expanduser().resolve()
    arrays = (".npy", ".npz", ".parquet")
    return place.parent if place.is_file() and place.suffix.lower() not in arrays else place
