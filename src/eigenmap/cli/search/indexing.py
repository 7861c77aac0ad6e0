"""What `eigenmap index` does: an index of images or of stored codes, made whole or added to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eigenmap.data import ImageSet
    from eigenmap.model import Codes
    from eigenmap.search import CodeIndex
    from eigenmap.search.adding import Added
    from eigenmap.search.backend import IndexSpec, ItemBatch
    from eigenmap.search.directory import Directory


def make_from_images(
    index: CodeIndex, source: Path, images: ImageSet, codes: Codes, out: Path, run: Path, force: bool, thumbnails: bool
) -> str:
    """Write a new index with everything in it, or nothing: a sentence that says what it holds."""
    from eigenmap.search.saving import save_index

    def finish(directory: Directory) -> None:
        _note_source(directory, source)
        _note_several_labels(directory, images)
        if thumbnails:
            _store_thumbnails(directory.path, images, images.ids, range(len(images)))

    index.add(codes, images.ids, _labels(images))
    save_index(index.backend, out, overwrite=force, model_dir=run, finish=finish)
    return f"{len(index):,} images, {index.n_components} features each."


def make_from_codes(
    about: IndexSpec, source: Path, batches: Iterator[ItemBatch], out: Path, run: Path, force: bool
) -> str:
    """Write a new index of what `eigenmap embed` wrote, in constant memory."""
    from eigenmap.search.saving import build_index

    items = build_index(
        about, batches, out, overwrite=force, model_dir=run, finish=lambda directory: _note_source(directory, source)
    )
    return f"{items:,} items, {about.n_components} features each."


def add_images(index: CodeIndex, source: Path, images: ImageSet, codes: Codes, replace: bool, thumbnails: bool) -> str:
    """Add images; a kill at any moment leaves the index as it was, or with all of them.

    Pictures of replaced images come last, and may still be those of before after a kill; adding them again ends that.
    """
    from eigenmap.search.adding import add
    from eigenmap.search.flat import FlatBackend

    assert isinstance(index.backend, FlatBackend) and index.backend.directory is not None
    directory = index.backend.directory

    def store(ids: list[str], rows: list[int]) -> None:
        _store_thumbnails(directory.path, images, ids, rows)

    added = add(index, source, images.ids, codes, _labels(images), replace, store if thumbnails else None)
    _note_several_labels(directory, images)
    return f"{len(index):,} images, {index.n_components} features each; {_told(added)}."


def add_codes(index: CodeIndex, source: Path, batches: Iterator[ItemBatch], replace: bool) -> str:
    """Add what `eigenmap embed` wrote, in constant memory."""
    from eigenmap.search.adding import Added, add

    added = Added()
    for batch in batches:
        added = added.and_then(add(index, source, [str(name) for name in batch.ids], batch.codes, replace=replace))
    return f"{len(index):,} items, {index.n_components} features each; {_told(added)}."


def _told(added: Added) -> str:
    parts = [f"{added.added:,} added"]
    if added.renamed:
        parts[0] += f" ({added.renamed:,} of them as {added.source}/..., since their names were taken)"
    if added.replaced:
        parts.append(f"{added.replaced:,} replaced")
    if added.kept:
        parts.append(f"{added.kept:,} were there already (--replace replaces them)")
    return ", ".join(parts)


def _labels(images: ImageSet) -> list[dict[str, str]] | None:
    """What is known of each image: its label, several separated by spaces."""
    if images.labels is None:
        return None
    names = images.labels.names
    rows = [[names[c] for c in row.nonzero()[:, 0].tolist()] for row in images.labels.matrix]
    return [{"label": " ".join(row)} if row else {} for row in rows]


def _store_thumbnails(folder: Path, images: ImageSet, ids: list[str], rows: range | list[int]) -> None:
    from eigenmap.service.thumbnails import store

    store(folder, ids, (images.pixels[row].numpy() for row in rows))


def _note_source(directory: Directory, source: Path) -> None:
    from eigenmap.search.sources import SOURCES_NOTE, Sources

    directory.write_note(SOURCES_NOTE, Sources().with_source(source)[0].as_json())


def _note_several_labels(directory: Directory, images: ImageSet) -> None:
    """Say in the index that a label may be several, since a class folder may have spaces in its name too."""
    from eigenmap.service.quality import SEVERAL

    if images.labels is not None and int(images.labels.matrix.sum(1).max()) > 1:
        directory.write_note(SEVERAL, {"separator": " "})
