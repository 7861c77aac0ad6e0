"""Indexes on disk: created or extended by `eigenmap index`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from eigenmap.cli.search.items import AnyItems, ImageItems, Items
from eigenmap.core.words import count

if TYPE_CHECKING:
    from eigenmap.search import CodeIndex
    from eigenmap.search.adding import Added
    from eigenmap.search.backend import IndexSpec, ItemBatch
    from eigenmap.search.directory import Directory


def make_index(about: IndexSpec, source: Path, items: AnyItems, out: Path, run: Path | None, force: bool) -> str:
    """Write a new index atomically; return a sentence that describes it."""
    from eigenmap.search.codecs import LARGEST_SAMPLE
    from eigenmap.search.saving import building, joined

    # Folders are sorted by class, so the levels of compact codes are learned from all images, not from the first ones.
    learned = about.precision not in ("float32", "float16")
    at_once = sys.maxsize if learned and isinstance(items, ImageItems) else LARGEST_SAMPLE
    with building(about, out, overwrite=force, model_dir=run) as made:
        for batch in joined(_stored(items, made.directory), at_once):
            made.add(batch)
        _note_source(made.directory, source)
        _note_several_labels(made.directory, items)
    return f"{count(made.items, items.noun)}, {count(about.n_components, 'feature')} each."


def add_items(index: CodeIndex, source: Path, items: AnyItems, replace: bool) -> str:
    """Add items to an index; return a sentence with the numbers of added, replaced and kept items.

    All images are added in one change, which a kill cannot split. Thumbnails of replaced images are written last; after
    a kill they may be outdated until the images are added again. Stored codes, of any number, are added in blocks.
    """
    from eigenmap.search import adding
    from eigenmap.search.flat import FlatBackend
    from eigenmap.service.thumbnails import store_encoded

    assert isinstance(index.backend, FlatBackend) and index.backend.directory is not None
    directory = index.backend.directory
    added = adding.Added()
    for part in [_together(items)] if isinstance(items, ImageItems) else items:

        def store(ids: list[str], rows: list[int], part: Items = part) -> None:
            store_encoded(directory.path, ids, (part.pictures[row] for row in rows))

        stored = store if part.pictures else None
        added = added.and_then(adding.add(index, source, part.ids, part.codes, part.metadata, replace, stored))
    _note_several_labels(directory, items)
    return f"{count(len(index), items.noun)}, {count(index.n_components, 'feature')} each; {_told(added)}."


def _stored(items: AnyItems, directory: Directory) -> Iterator[ItemBatch]:
    """Yield the items as batches of an index, storing their thumbnails on the way."""
    from eigenmap.search.backend import ItemBatch
    from eigenmap.service.thumbnails import store_encoded

    for part in items:
        if part.pictures:
            store_encoded(directory.path, part.ids, part.pictures)
        yield ItemBatch([*part.ids], part.codes, part.metadata)


def _together(items: ImageItems) -> Items:
    import numpy as np

    ids, codes, metadata, pictures = zip(*items, strict=True)
    return Items([*chain(*ids)], np.concatenate(codes), [*chain(*metadata)], [*chain(*pictures)])


def _told(added: Added) -> str:
    parts = [f"{added.added:,} added"]
    if added.renamed:
        parts[0] += f" ({added.renamed:,} of them as {added.source}/..., since their names were taken)"
    if added.replaced:
        parts.append(f"{added.replaced:,} replaced")
    if added.kept:
        were, them = ("was", "it") if added.kept == 1 else ("were", "them")
        parts.append(f"{added.kept:,} {were} already there (--replace replaces {them})")
    return ", ".join(parts)


def _note_source(directory: Directory, source: Path) -> None:
    from eigenmap.search.sources import SOURCES_NOTE, Sources

    directory.write_note(SOURCES_NOTE, Sources().with_source(source)[0].as_json())


def _note_several_labels(directory: Directory, items: AnyItems) -> None:
    """Note that an item may have several labels; a space proves nothing, since names of class folders may have one."""
    from eigenmap.service.quality import SEVERAL

    if items.several_labels:
        directory.write_note(SEVERAL, {"separator": " "})
