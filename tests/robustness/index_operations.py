"""What is written to an index."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from eigenmap import Eigenmap, EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.service.thumbnails import StoredPictures, store
from tests.cli.run import succeed
from tests.end_to_end.photos import pictures
from tests.robustness.operation import K, Operation, Step, codes, table


class ChangeIndex(Operation):
    """An index on disk: made, filled, changed, thinned out."""

    precision: ClassVar[dict[str, Any]] = {"precision": "float32"}

    def steps(self) -> list[Step]:
        return [self.create, self.add, self.update, self.delete, self.add_more]

    def create(self, folder: Path) -> None:
        try:
            CodeIndex.open(folder / "new" / "index")
        except EigenmapError:
            CodeIndex(K, where=folder / "new" / "index", **self.precision)

    def add(self, folder: Path, start: int = 0, n: int = 6) -> None:
        index = CodeIndex.open(folder / "new" / "index")
        if f"{start}" not in index.ids:
            names = [f"{start + i}" for i in range(n)]
            index.add(codes(n, seed=start), names, [{"i": i} for i in range(n)])

    def update(self, folder: Path) -> None:
        index = CodeIndex.open(folder / "new" / "index")
        names = [name for name in ("0", "3") if name in index.ids]
        index.update(codes(2, seed=50), names, [{"i": 8}, {"i": 9}])

    def delete(self, folder: Path) -> None:
        index = CodeIndex.open(folder / "new" / "index")
        index.delete([name for name in ("1", "2") if name in index.ids])

    def add_more(self, folder: Path) -> None:
        self.add(folder, start=10, n=3)

    def read(self, folder: Path) -> object:
        return read_index(folder / "new" / "index")


def read_index(path: Path) -> object:
    """All items and what is known of them, after every checksum was compared."""
    index = CodeIndex.open(path)
    index.backend.verify()  # type: ignore[attr-defined]
    found: dict[str, object] = {}
    for batch in index.batches():
        rows = table(batch.ids, batch.codes)
        found |= {
            name: (row, dict(known or {})) for (name, row), known in zip(rows.items(), batch.metadata, strict=True)
        }
    return found


class ChangeCompactIndex(ChangeIndex):
    """The same, with a budget of bits a code."""

    precision: ClassVar[dict[str, Any]] = {"precision": "bits", "bytes_per_item": 4}


class ManyChanges(Operation):
    """One item changed so often that the log is rewritten: after 64 lines."""

    def prepare(self, folder: Path) -> None:
        index = CodeIndex(K, where=folder / "index")
        for seed in range(60):
            index.upsert(codes(1, seed), ["0"])

    def steps(self) -> list[Step]:
        return [partial(self.change, seed=seed) for seed in range(60, 67)]

    def change(self, folder: Path, seed: int) -> None:
        CodeIndex.open(folder / "index").upsert(codes(1, seed), ["0"])

    def read(self, folder: Path) -> object:
        return read_index(folder / "index")


class UpgradeIndex(Operation):
    """An index of format version 2, which the first change makes one of version 3."""

    def prepare(self, folder: Path) -> None:
        shutil.copytree(Path(__file__).parents[1] / "search" / "version2.index", folder / "index")

    def steps(self) -> list[Step]:
        return [partial(self.change, seed=seed) for seed in (1, 2)]

    def change(self, folder: Path, seed: int) -> None:
        index = CodeIndex.open(folder / "index")
        index.upsert(codes(2, seed)[:, [0] * index.n_components], ["new a", "new b"])

    def read(self, folder: Path) -> object:
        return read_index(folder / "index")


class SearchApproximately(Operation):
    """A search that keeps what it has made: an approximate index, beside the codes."""

    def prepare(self, folder: Path) -> None:
        CodeIndex(K, where=folder / "index", backend="faiss").add(codes(60, seed=0), range(60))

    def steps(self) -> list[Step]:
        return [self.read]

    def read(self, folder: Path) -> object:
        return CodeIndex.open(folder / "index").search(codes(5, seed=1), top=3).ids


class StoreThumbnails(Operation):
    """Small pictures in an index, new ones and then others in their place."""

    def prepare(self, folder: Path) -> None:
        CodeIndex(K, where=folder / "index").add(codes(2, seed=0), [0, 1])

    def steps(self) -> list[Step]:
        return [partial(self.store, seed=seed) for seed in (0, 1)]

    def store(self, folder: Path, seed: int) -> None:
        store(folder / "index", [0, 1], pictures(2, seed=seed).transpose(0, 3, 1, 2))

    def read(self, folder: Path) -> object:
        found = StoredPictures(folder / "index")
        stored = [found.read(name) for name in ("0", "1")]
        if None in stored:
            raise EigenmapError("there are no pictures")
        return stored


class SaveIndex(Operation):
    """An index in memory written to a new folder, with its model."""

    def steps(self) -> list[Step]:
        return [partial(self.save, seed=1)]

    def save(self, folder: Path, seed: int) -> None:
        index = CodeIndex(K)
        index.add(codes(5, seed), [f"{seed}-{i}" for i in range(5)])
        index.save(folder / "new" / "index", overwrite=True, model_dir=self.inputs / "nodes")

    def read(self, folder: Path) -> object:
        content = read_index(folder / "new" / "index")
        Eigenmap.load(folder / "new" / "index" / "model")
        return content


class ReplaceIndex(SaveIndex):
    """An index written over another."""

    def prepare(self, folder: Path) -> None:
        self.save(folder, seed=0)

    def steps(self) -> list[Step]:
        return [partial(self.save, seed=1)]


class IndexCommand(Operation):
    """`eigenmap index`, which stores a model and small pictures too, and `--add`."""

    def steps(self) -> list[Step]:
        return [partial(self.index, source="pictures.npy"), partial(self.index, source="more.npy", add=True)]

    def index(self, folder: Path, source: str, add: bool = False) -> None:
        run, out, how = self.inputs / "images", folder / "new" / "index", "--add" if add else "--force"
        succeed("index", run, self.inputs / source, "--out", out, "--quiet", "--device", "cpu", how)

    def read(self, folder: Path) -> object:
        path = folder / "new" / "index"
        content = read_index(path)
        assert isinstance(content, dict)
        Eigenmap.load(path / "model")
        thumbnails = StoredPictures(path)
        return {name: (known, thumbnails.read(name)) for name, known in content.items()}
