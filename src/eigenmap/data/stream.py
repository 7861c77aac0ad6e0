"""Images that are never all in memory: a source cut into shards, each of which can be read by itself.

    stream = open_stream("PHOTOS/")
    for shard in stream.shards(10_000):
        for name, image in shard.rows:
            pixels = square(image, size=64, channels=3)

The order and the names are those of :func:`eigenmap.data.load_images`. A folder is walked, not listed; parquet files
are read in small batches; an .npy file is memory-mapped. Shards can be pickled, so that another machine may read one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeAlias

from eigenmap.data.arrays import Array, as_array, as_nhwc, read_array_file, to_pixels
from eigenmap.data.folders import list_folder, walk_images
from eigenmap.data.images import Encoded, Pixels, decode_image
from eigenmap.data.parquet import count_rows, named_rows
from eigenmap.errors import EigenmapError

Picture: TypeAlias = Encoded | Array
"""A file, the bytes of one, or the values of an image (H, W, C)."""


class Rows(Protocol):
    """Part of a source: iterating reads its images one by one, any number of times."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[tuple[str, Picture]]: ...


@dataclass(frozen=True)
class Shard:
    """A run of images that is worked on as a whole."""

    number: int
    rows: Rows


@dataclass(frozen=True)
class Survey:
    """What a first look at a source tells.

    Attributes:
        count: how many images there seem to be.
        digest: changes when a name is added, removed or changed, or a file that holds many images is written.
        skipped: (folder, reason) of what cannot be opened.
        class_folders: whether every image lies in a folder, whose name is then its label.

    """

    count: int
    digest: str
    skipped: list[tuple[str, str]] = field(default_factory=list)
    class_folders: bool = False


class ImageStream(Protocol):
    """A source of images that can be gone through again and again."""

    def survey(self) -> Survey:
        """Look at the names of all images, holding none."""
        ...

    def shards(self, size: int) -> Iterator[Shard]:
        """Cut the images into runs of `size`, numbered from 0."""
        ...


def open_stream(source: str | Path | Sequence[Path]) -> ImageStream:
    """Open a folder, an image file, a list of them, an .npy, .npz or parquet file, or a folder of parquet files."""
    if not isinstance(source, (str, Path)):
        return _files(list(source), [str(path) for path in source])
    path = Path(source).expanduser()
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise EigenmapError(f"{path} does not exist")
    if path.suffix.lower() in (".npy", ".npz"):
        return _Arrays(path, _NpyFile(path) if path.suffix.lower() == ".npy" else _Loaded(read_array_file(path)[0]))
    return _files([path], [path.name])


def square(picture: Picture, size: int, channels: int) -> Pixels:
    """One image as 8-bit pixels (channels, size, size)."""
    if picture is None or isinstance(picture, (Path, bytes)):
        return decode_image(picture, size, channels)
    return to_pixels(picture[None], size, channels)[0].numpy()


# Folders and files


@dataclass(frozen=True)
class _FileRows:
    root: Path
    names: list[str]
    ids: list[str]

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[tuple[str, Picture]]:
        for name, ident in zip(self.names, self.ids, strict=True):
            yield ident, self.root / name


@dataclass(frozen=True)
class _Folder:
    root: Path

    def survey(self) -> Survey:
        closed: list[tuple[str, str]] = []
        loose = 0

        def names() -> Iterator[str]:
            nonlocal loose
            for name in walk_images(self.root, closed):
                loose += "/" not in name
                yield name

        count, digest = _digest(names())
        return Survey(count, digest, closed, class_folders=not loose)

    def shards(self, size: int) -> Iterator[Shard]:
        walk, number = walk_images(self.root), 0
        while names := list(islice(walk, size)):
            yield Shard(number, _FileRows(self.root, names, names))
            number += 1


@dataclass(frozen=True)
class _FileList:
    paths: list[Path]
    ids: list[str]

    def survey(self) -> Survey:
        return Survey(*_digest(self.ids))

    def shards(self, size: int) -> Iterator[Shard]:
        for number, (start, stop) in enumerate(_runs(len(self.ids), size)):
            names = [str(path.absolute()) for path in self.paths[start:stop]]
            yield Shard(number, _FileRows(Path(), names, self.ids[start:stop]))


def _folder(root: Path) -> ImageStream:
    if next(walk_images(root), None) is not None:
        return _Folder(root)
    folder = list_folder(root)
    if not folder.parquet:
        raise folder.without_images()
    return _parquet([root / name for name in folder.parquet])


def _files(paths: list[Path], ids: list[str]) -> ImageStream:
    if not paths:
        raise EigenmapError("the list of images is empty")
    absent = [name for path, name in zip(paths, ids, strict=True) if not path.is_file()]
    if absent:
        shown = ", ".join(absent[:3]) + (", ..." if len(absent) > 3 else "")
        raise EigenmapError(f"{len(absent):,} of {len(ids):,} image files do not exist: {shown}")
    if all(path.suffix.lower() == ".parquet" for path in paths):
        return _parquet(paths)
    return _FileList(paths, ids)


# Parquet files


@dataclass(frozen=True)
class _ParquetRows:
    files: list[Path]
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[tuple[str, Picture]]:
        yield from named_rows(self.files, self.start, self.stop)


@dataclass(frozen=True)
class _Parquet:
    files: list[Path]
    count: int

    def survey(self) -> Survey:
        ids = (name for name, _ in named_rows(self.files, 0, self.count, images=False))
        return Survey(*_digest(ids, self.files))

    def shards(self, size: int) -> Iterator[Shard]:
        for number, (start, stop) in enumerate(_runs(self.count, size)):
            yield Shard(number, _ParquetRows(self.files, start, stop))


def _parquet(files: list[Path]) -> ImageStream:
    files = [file.absolute() for file in files]
    count = sum(count_rows(file) for file in files)
    if count == 0:
        raise EigenmapError(f"{files[0]} holds no rows")
    return _Parquet(files, count)


# Arrays


@dataclass(frozen=True)
class _NpyFile:
    """An array that is opened where it is needed, so that a shard carries its name and not its content."""

    path: Path

    def __call__(self) -> Array:
        return read_array_file(self.path.absolute())[0]


@dataclass(frozen=True)
class _Loaded:
    array: Array

    def __call__(self) -> Array:
        return self.array


@dataclass(frozen=True)
class _ArrayRows:
    opened: _NpyFile | _Loaded
    first: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[tuple[str, Picture]]:
        images = as_nhwc(as_array(self.opened()))[self.start - self.first : self.stop - self.first]
        yield from zip(map(str, range(self.start, self.stop)), images, strict=True)


@dataclass(frozen=True)
class _Arrays:
    path: Path
    opened: _NpyFile | _Loaded

    def survey(self) -> Survey:
        return Survey(*_digest(map(str, range(self._count())), [self.path]))

    def shards(self, size: int) -> Iterator[Shard]:
        for number, (start, stop) in enumerate(_runs(self._count(), size)):
            if isinstance(self.opened, _NpyFile):
                yield Shard(number, _ArrayRows(self.opened, 0, start, stop))
            else:
                part = _Loaded(as_nhwc(self.opened.array)[start:stop])
                yield Shard(number, _ArrayRows(part, start, start, stop))

    def _count(self) -> int:
        count = len(as_nhwc(self.opened()))
        if count == 0:
            raise EigenmapError("the array of images is empty")
        return count


def _runs(count: int, size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, count, size):
        yield start, min(start + size, count)


def _digest(names: Iterable[str], files: Sequence[Path] = ()) -> tuple[int, str]:
    """How many names there are, and a digest of them in order, and of when the files were written."""
    digest, count = hashlib.sha256(), 0
    for file in files:
        digest.update(f"{file.stat().st_size} {file.stat().st_mtime_ns}\n".encode())
    for name in names:
        digest.update(name.encode("utf-8", "surrogateescape") + b"\0")
        count += 1
    return count, digest.hexdigest()
