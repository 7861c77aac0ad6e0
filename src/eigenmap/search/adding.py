"""Images of one more source, added to an index without losing those of another that have the same names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from eigenmap.search.backend import Floats, Metadata
from eigenmap.search.flat import FlatBackend
from eigenmap.search.index import CodeIndex
from eigenmap.search.sources import NOTE, Placed, Source, Sources

Before: TypeAlias = Callable[[list[str], list[int]], object]
"""Called with ids and the rows of a batch that they belong to, before these become items."""


class Added(NamedTuple):
    """What became of some images."""

    added: int = 0
    renamed: int = 0
    """Those of the added ones whose names were taken."""
    replaced: int = 0
    kept: int = 0
    """Those that were there already, from the same source."""

    def __add__(self, other: object) -> Added:
        assert isinstance(other, Added)
        return Added(*(a + b for a, b in zip(self, other, strict=True)))


def noted(index: CodeIndex, place: Path) -> Source:
    """The source at a place, which the index knows from now on."""
    backend = index.backend
    assert isinstance(backend, FlatBackend) and backend.directory is not None
    with backend.alone():
        known = Sources.from_json(backend.directory.read_note(NOTE))
        sources, source = known.with_source(place)
        if sources != known:
            backend.directory.write_note(NOTE, sources.as_json())
    return source


def add(
    index: CodeIndex,
    source: Source,
    files: Sequence[str],
    codes: Floats,
    metadata: Sequence[Metadata] | None = None,
    replace: bool = False,
    before: Before | None = None,
) -> Added:
    """Add images of a source, by their names in it.

    Those that are there already, from this source, stay as they are; with `replace` they are replaced, and so are
    images of other sources that have the same name. Others get an id that is free.
    """
    backend = index.backend
    assert isinstance(backend, FlatBackend)
    with backend.alone():
        placed = source.placed(files, backend.known)
        if replace:
            placed = [_replacing(one, file, source) for one, file in zip(placed, files, strict=True)]
        rows = [row for row, one in enumerate(placed) if replace or not one.own]
        if rows:
            ids = [placed[row].id for row in rows]
            known = [{**(metadata[row] if metadata else {}), **placed[row].metadata} for row in rows]
            if before is not None:
                before(ids, rows)
            index.upsert(codes[rows], ids, known)
    there = sum(one.own for one in placed)
    renamed = sum(one.taken for one in placed)
    return Added(len(placed) - there, renamed, there if replace else 0, 0 if replace else there)


def _replacing(one: Placed, file: str, source: Source) -> Placed:
    """An image that takes the place of one of another source with the same name."""
    return Placed(file, True, False, source.metadata(file, file)) if one.taken and not one.own else one
