"""Addition of images from another source to an index, keeping images of the same name from earlier sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from eigenmap.search.backend import Floats, Metadata
from eigenmap.search.flat import FlatBackend
from eigenmap.search.index import CodeIndex
from eigenmap.search.parts import note_parts
from eigenmap.search.scan import comparable
from eigenmap.search.sources import SOURCES_NOTE, IndexSource, Placed, Sources

StoreParts: TypeAlias = Callable[[list[str], list[int]], object]
"""Stores data that belongs to items, given their ids and their rows in a batch."""

_SAME = 0.999
"""Cosine similarity that two codes of one image reach, even if one was stored as int8."""
_MOST = 0.9
_ROUGH = ("bits", "signs")
"""Precisions whose codes are too coarse to recognise an image."""


class Added(NamedTuple):
    """Outcome of adding images."""

    added: int = 0
    renamed: int = 0
    """Number of added images whose names were taken."""
    replaced: int = 0
    kept: int = 0
    """Number of images already present from the same source."""
    source: str = ""
    """Name of their source in the index."""

    def and_then(self, more: Added) -> Added:
        """Return the outcome of these and of more images of the same source."""
        added, renamed = self.added + more.added, self.renamed + more.renamed
        return Added(added, renamed, self.replaced + more.replaced, self.kept + more.kept, more.source)


def add(
    index: CodeIndex,
    place: Path,
    files: Sequence[str],
    codes: Floats,
    metadata: Sequence[Metadata] | None = None,
    replace: bool = False,
    store: StoreParts | None = None,
) -> Added:
    """Add images from the source at `place`, by their names in it, to an index on disk.

    Images already present from this source stay unchanged. With `replace` they are replaced, and so are images of other
    sources with the same name. Other images get a free id. `store` is called for new items before they become visible,
    and for replaced ones afterwards: if their codes cannot be written, the data of the old ones stays.
    """
    backend = index.backend
    assert isinstance(backend, FlatBackend) and backend.directory is not None
    with backend.alone():
        source = _noted(index, backend, place, files, codes)
        placed = source.placed(files, backend.known)
        if replace:
            placed = [_replacing(one, file, source) for one, file in zip(placed, files, strict=True)]
        rows = [row for row, one in enumerate(placed) if replace or not one.own]
        if rows:
            ids = [placed[row].id for row in rows]
            known = [{**(metadata[row] if metadata else {}), **placed[row].metadata} for row in rows]
            new, old = ([row for row in rows if placed[row].own == own] for own in (False, True))
            if store is not None and new:
                store([placed[row].id for row in new], new)
            index.upsert(codes[rows], ids, known)
            if store is not None and old:
                store([placed[row].id for row in old], old)
        note_parts(backend.directory)
    there = sum(one.own for one in placed)
    renamed = sum(one.taken for one in placed)
    return Added(len(placed) - there, renamed, there if replace else 0, 0 if replace else there, source.name)


def _noted(index: CodeIndex, backend: FlatBackend, place: Path, files: Sequence[str], codes: Floats) -> IndexSource:
    """Return the source at `place`, recording it in the index if it is new."""
    assert backend.directory is not None
    known = Sources.from_json(backend.directory.read_note(SOURCES_NOTE, required=True))
    if known.first_is_unknown and _recognised(index, backend, files, codes):
        known = Sources()
    sources, source = known.with_source(place)
    if sources != known:
        backend.directory.write_note(SOURCES_NOTE, sources.as_json())
    return source


def _recognised(index: CodeIndex, backend: FlatBackend, files: Sequence[str], codes: Floats) -> bool:
    """Tell, by comparing codes, whether the images are those that the index has under the same names."""
    there = backend.known(files)
    rows = [row for row, name in enumerate(files) if name in there]
    if not rows or backend.about.precision in _ROUGH:
        return False
    stored = comparable(index.codes([files[row] for row in rows]), "cosine")
    return bool(np.mean((stored * comparable(codes[rows], "cosine")).sum(axis=1) > _SAME) >= _MOST)


def _replacing(one: Placed, file: str, source: IndexSource) -> Placed:
    """Return an image that replaces one of another source with the same name."""
    return Placed(file, True, False, source.metadata(file, file)) if one.taken and not one.own else one
