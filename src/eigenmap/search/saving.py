"""Atomic creation of an index directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TypeAlias

import numpy as np

from eigenmap.core.addresses import require_path
from eigenmap.core.errors import EigenmapError
from eigenmap.search import checks, codecs
from eigenmap.search.backend import Backend, IndexSpec, ItemBatch, Readable, still
from eigenmap.search.directory import Directory, staged_index
from eigenmap.search.flat import FlatBackend, metadata_text
from eigenmap.search.index_file import use_at
from eigenmap.search.parts import MODEL, note_parts
from eigenmap.search.snapshot import Snapshot

Place: TypeAlias = str | os.PathLike[str]

_COPIED_BYTES = 128 * 2**20


def save_index(backend: Backend, path: Place, *, overwrite: bool, model_dir: Place | None) -> None:
    """Write the items of any back end as a directory, without deleted rows.

    An index that is saved over itself is locked, so that no change by another process is lost, and keeps its model and
    everything else in its directory.
    """
    require_path(path)
    own = _directory_at(backend, Path(path))
    with nullcontext() if own is None else own.locked(), ExitStack() as stack:
        items = still(backend)  # the current state, including changes by others before the lock
        directory = stack.enter_context(staged_index(Path(path), items.about, overwrite, held=own is not None))
        _copy_items(items, directory)
        if own is not None:
            _carry_over(own, directory, model_dir is None)
        _finish(directory, model_dir)


class UnfinishedIndex:
    """An index that is being built in a staging directory."""

    def __init__(self, about: IndexSpec, directory: Directory) -> None:
        self.directory = directory
        self._backend = _empty(about, directory)

    @property
    def items(self) -> int:
        """Number of items."""
        return self._backend.rows

    def add(self, batch: ItemBatch) -> None:
        """Add items; the levels of compact codes are learned from the first batch."""
        self._backend.write("add", checks.matrix(batch.codes, "codes"), checks.names(batch.ids), batch.metadata)


@contextmanager
def building(about: IndexSpec, path: Place, *, overwrite: bool, model_dir: Place | None) -> Iterator[UnfinishedIndex]:
    """Fill an index in constant memory; it is moved into place with its model if the block succeeds.

    with building(IndexSpec(256), "photos.index", overwrite=False, model_dir=None) as made:
        made.add(batch)
    """
    require_path(path)
    with staged_index(Path(path), about, overwrite) as directory:
        made = UnfinishedIndex(about, directory)
        yield made
        if not made.items:
            raise EigenmapError("there are no codes to index")
        _finish(directory, model_dir)


def _finish(directory: Directory, model_dir: Place | None) -> None:
    """Add the model to the directory, and record the parts."""
    _copy_model(directory, model_dir)
    note_parts(directory)


def _directory_at(backend: Backend, path: Path) -> Directory | None:
    """Return the back end's directory if it is at `path`, or was until another process replaced it there."""
    directory = backend.directory if isinstance(backend, FlatBackend) else None
    if directory is None:
        return None
    try:
        there = use_at(path, path.stat)  # the path is briefly missing while another process replaces it
    except (FileNotFoundError, NotADirectoryError):
        return None
    is_own = os.path.samestat(there, os.fstat(directory.folder.descriptor))
    return directory if is_own or directory.path.resolve() == path.resolve() else None


def _copy_items(items: Readable, directory: Directory) -> None:
    about = items.about
    codec = items.codec if isinstance(items, Snapshot) else None
    copy = _empty(about, directory, codec)
    rows = max(1, _COPIED_BYTES // (8 * about.n_components))
    for batch in items.batches(rows):
        if not directory.state.sizes:
            directory.write_codec(copy.start(codec or codecs.train_codec(about, batch.codes)))
        copy.append(batch.codes, batch.ids, [metadata_text(item) for item in batch.metadata], [])


def _carry_over(old: Directory, new: Directory, with_model: bool) -> None:
    """Copy everything besides the index from the old directory to the new: notes, thumbnails, model."""
    own = {*old.state.sizes, "index.json", "codec.json", "log"}
    for entry in old.path.iterdir():
        if entry.name in own or entry.name.startswith((".", "prefix-")) or (entry.name == MODEL and not with_model):
            continue
        target = new.path / entry.name
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, target, symlinks=True, copy_function=_link_or_copy)
        else:
            _link_or_copy(entry, target)


def _link_or_copy(entry: Place, target: Place) -> None:
    """Link or copy a file, since the old directory will be removed."""
    try:
        os.link(entry, target, follow_symlinks=False)
    except OSError:
        with suppress(shutil.SpecialFileError):  # a FIFO has no content
            shutil.copyfile(entry, target, follow_symlinks=False)


def joined(batches: Iterable[ItemBatch], rows: int = codecs.LARGEST_SAMPLE) -> Iterator[ItemBatch]:
    """Merge batches to at least `rows` items, since levels of compact codes are learned from the first batch."""
    held: list[ItemBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(len(one.ids) for one in held) >= rows:
            yield _join(held)
            held = []
    if held:
        yield _join(held)


def _join(batches: list[ItemBatch]) -> ItemBatch:
    ids = [name for batch in batches for name in batch.ids]
    metadata = [item for batch in batches for item in batch.metadata]
    return ItemBatch(ids, np.concatenate([batch.codes for batch in batches]), metadata)


def _empty(about: IndexSpec, directory: Directory, codec: codecs.Codec | None = None) -> FlatBackend:
    made = FlatBackend(about, _COPIED_BYTES, directory, codec)
    made.durable = False  # the entire directory is flushed before it is moved into place
    return made


def _copy_model(directory: Directory, model_dir: Place | None) -> None:
    """Copy the model that made the codes, without other files of its run and without permissions."""
    if model_dir is None:
        return
    from eigenmap.model import DESCRIPTION, WEIGHTS, copy_model, weights_file

    for name, file in ((DESCRIPTION, Path(model_dir) / DESCRIPTION), (WEIGHTS, weights_file(Path(model_dir)))):
        if not file.is_file():
            raise EigenmapError(f"{model_dir} contains no complete model ({name} is missing); give the folder of a run")
    copied, made_by = copy_model(Path(model_dir), directory.path / MODEL), directory.about.fingerprint
    if made_by not in (None, copied):
        raise EigenmapError(
            f"{model_dir} contains model {copied[:12]}, but the codes were made by model {made_by[:12]}; "
            "encode the images again"
        )
