"""Streams of image files, from a folder or a list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from eigenmap.core.files import atomic_write
from eigenmap.data.images.folders import walk_images
from eigenmap.data.images.labels import class_folder, labels_from_folders
from eigenmap.data.images.rows import RawImage, Shard, Skipped, Survey, Whole, digest_of, name_bytes, runs, stamp_of

_LISTING_BLOCK = 2**20
"""Bytes of a listing read at a time."""


@dataclass(frozen=True)
class FileRows:
    """Files below a folder, with their ids."""

    root: Path
    names: list[str]
    ids: list[str]

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[tuple[str, RawImage]]:
        for name, ident in zip(self.names, self.ids, strict=True):
            yield ident, self.root / name

    def labels(self) -> list[list[str]]:
        """Return the class folder of each image."""
        return [[class_folder(name)] for name in self.ids]

    def stamp(self) -> str:
        """Return a digest of the sizes and times of the files."""
        return stamp_of(self.root / name for name in self.names)


@dataclass(frozen=True)
class FolderStream:
    """The images of a folder of any depth, in the order of their names.

    With `listing`, the survey writes the names to that file and the shards read them from it.
    """

    root: Path
    listing: Path | None = None

    def survey(self) -> Survey:
        """Walk the folder."""
        closed: Skipped = []
        loose = 0

        def names() -> Iterator[str]:
            nonlocal loose
            for name in walk_images(self.root, closed):
                loose += "/" not in name
                yield name

        count, digest = digest_of(names() if self.listing is None else _listed(names(), self.listing))
        return Survey(count, digest, closed, labelled=not loose)

    def shards(self, size: int) -> Iterator[Shard]:
        """Yield shards of the names, from the listing if there is one."""
        walk, number = walk_images(self.root) if self.listing is None else _names_in(self.listing), 0
        while names := list(islice(walk, size)):
            yield Shard(number, FileRows(self.root, names, names))
            number += 1

    def whole(self) -> Whole:
        """Return all images of the folder."""
        closed: Skipped = []
        names = list(walk_images(self.root, closed))
        return Whole(FileRows(self.root, names, names), names, labels_from_folders(names), closed)


def _listed(names: Iterable[str], listing: Path) -> Iterator[str]:
    """Yield names and write them to a file, each followed by a zero byte."""
    with atomic_write(listing) as file:
        for name in names:
            file.write(name_bytes(name) + b"\0")
            yield name


def _names_in(listing: Path) -> Iterator[str]:
    begun = b""
    with listing.open("rb") as file:
        while block := file.read(_LISTING_BLOCK):
            *names, begun = (begun + block).split(b"\0")
            yield from (name.decode("utf-8", "surrogateescape") for name in names)


@dataclass(frozen=True)
class FileListStream:
    """Image files in the order of the list."""

    paths: list[Path]
    ids: list[str]

    def survey(self) -> Survey:
        """Count the files."""
        return Survey(*digest_of(self.ids))

    def shards(self, size: int) -> Iterator[Shard]:
        """Yield shards of the list."""
        for number, (start, stop) in enumerate(runs(len(self.ids), size)):
            yield Shard(number, self._rows(start, stop))

    def whole(self) -> Whole:
        """Return all files."""
        return Whole(self._rows(0, len(self.ids)), self.ids)

    def _rows(self, start: int, stop: int) -> FileRows:
        return FileRows(Path(), [str(path.absolute()) for path in self.paths[start:stop]], self.ids[start:stop])
