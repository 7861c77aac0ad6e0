"""An index as a new directory, which appears whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np

from eigenmap.addresses import require_path
from eigenmap.errors import EigenmapError
from eigenmap.search import checks, codecs
from eigenmap.search.backend import About, Backend, Batch
from eigenmap.search.directory import Directory, replaced
from eigenmap.search.flat import FlatBackend, as_text

Place: TypeAlias = str | os.PathLike[str]

_COPIED_BYTES = 128 * 2**20


def save(backend: Backend, path: Place, *, overwrite: bool, model_dir: Place | None) -> None:
    """Write the items of any back end as a directory, without the rows that are gone."""
    require_path(path)
    about = backend.about
    with replaced(Path(path), about, overwrite) as directory:
        codec = backend.codec if isinstance(backend, FlatBackend) else None
        copy = _empty(about, directory, codec)
        rows = max(1, _COPIED_BYTES // (8 * about.n_components))
        for batch in backend.batches(rows):
            if not directory.state.sizes:
                directory.write_codec(copy.start(codec or codecs.train(about, batch.codes)))
            copy.append(batch.codes, batch.ids, [as_text(item) for item in batch.metadata], [])
        _copy_model(directory, model_dir)


def build(about: About, batches: Iterable[Batch], path: Place, *, overwrite: bool, model_dir: Place | None) -> int:
    """Make the index of a stream of items in constant memory: how many there are."""
    require_path(path)
    with replaced(Path(path), about, overwrite) as directory:
        made = _empty(about, directory)
        for batch in joined(batches):
            made.write("add", checks.matrix(batch.codes, "codes"), checks.names(batch.ids), batch.metadata)
        if not made.rows:
            raise EigenmapError("there are no codes to index")
        _copy_model(directory, model_dir)
        return made.rows


def joined(batches: Iterable[Batch], rows: int = codecs.LARGEST_SAMPLE) -> Iterator[Batch]:
    """The same items, at least so many at once but for the last: levels of compact codes are learned from the first."""
    held: list[Batch] = []
    for batch in batches:
        held.append(batch)
        if sum(len(one.ids) for one in held) >= rows:
            yield _join(held)
            held = []
    if held:
        yield _join(held)


def _join(batches: list[Batch]) -> Batch:
    ids = [name for batch in batches for name in batch.ids]
    metadata = [item for batch in batches for item in batch.metadata]
    return Batch(ids, np.concatenate([batch.codes for batch in batches]), metadata)


def _empty(about: About, directory: Directory, codec: codecs.Codec | None = None) -> FlatBackend:
    made = FlatBackend(about, _COPIED_BYTES, directory, codec)
    made.durable = False  # the directory is put on disk as a whole before it takes its place
    return made


def _copy_model(directory: Directory, model_dir: Place | None) -> None:
    """The two files of a model, whatever else the folder of its run holds, and without their permissions."""
    if model_dir is None:
        return
    from eigenmap.model import DESCRIPTION, WEIGHTS

    (directory.path / "model").mkdir()
    for name in (DESCRIPTION, WEIGHTS):
        if not (Path(model_dir) / name).is_file():
            raise EigenmapError(f"{model_dir} holds no whole model ({name} is missing); give the folder of a run")
        shutil.copyfile(Path(model_dir) / name, directory.path / "model" / name)
