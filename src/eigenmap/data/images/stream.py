"""Images that are never all in memory: a source cut into shards, each of which can be read by itself.

    stream = open_stream("PHOTOS/")
    for shard in stream.shards(10_000):
        for name, image in shard.rows:
            pixels = square(image, size=64, channels=3)

The order and the names are those of :func:`eigenmap.data.load_images`. A folder is walked, not listed; parquet files
are read in small batches; an .npy file is memory-mapped. Shards can be pickled, so that another machine may read one.

Sources change while they are read, which may take days. Names that come and go between the survey and the shards are
kept apart by a listing, a file in which the survey writes the names and from which shards take them; a picture that is
replaced shows in its shard's `stamp`; a file that holds many images must stay as it is, or reading it is an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeAlias

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_write
from eigenmap.data.images.arrays import Array, as_array, as_nhwc, read_array_file, to_pixels
from eigenmap.data.images.decode import Encoded, Pixels, decode_image
from eigenmap.data.images.folders import list_folder, require_files, walk_images
from eigenmap.data.images.parquet import count_rows, named_rows

RawImage: TypeAlias = Encoded | Array
"""A file, the bytes of one, or the values of an image (H, W, C)."""

_LISTING_BLOCK = 2**20
"""Bytes of a listing read at a time."""


class ImageRows(Protocol):
    """Part of a source: iterating reads its images one by one, any number of times."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[tuple[str, RawImage]]: ...

    def stamp(self) -> str:
        """A digest of the sizes and times of the files these images are in; it changes when one is written."""
        ...


@dataclass(frozen=True)
class Shard:
    """A run of images that is worked on as a whole."""

    number: int
    rows: ImageRows


@dataclass(frozen=True)
class Survey:
    """What a first look at a source tells.

    Attributes:
        count: how many images there seem to be.
        digest: changes when a name is added, removed or changed, or a file that holds many images is written (whether
            single pictures are what they were, the stamps of the shards tell).
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


def open_stream(source: str | Path | Sequence[Path], listing: Path | None = None) -> ImageStream:
    """Open a folder, an image file, a list of them, an .npy, .npz or parquet file, or a folder of parquet files.

    With `listing`, the survey of a folder of images writes their names to that file, and the shards are of those names,
    whatever is added to the folder or removed from it in the meantime, and in whichever process they are read.
    """
    if not isinstance(source, (str, Path)):
        return _files(list(source), [str(path) for path in source])
    path = Path(source).expanduser()
    if path.is_dir():
        return _folder(path, listing)
    if not path.exists():
        raise EigenmapError(f"{path} does not exist")
    require_files([path], [str(path)])
    if path.suffix.lower() in (".npy", ".npz"):
        return _array(path.absolute())
    return _files([path], [path.name])


def square(picture: RawImage, size: int, channels: int) -> Pixels:
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

    def __iter__(self) -> Iterator[tuple[str, RawImage]]:
        for name, ident in zip(self.names, self.ids, strict=True):
            yield ident, self.root / name

    def stamp(self) -> str:
        return _stamp(self.root / name for name in self.names)


@dataclass(frozen=True)
class _Folder:
    root: Path
    listing: Path | None

    def survey(self) -> Survey:
        closed: list[tuple[str, str]] = []
        loose = 0

        def names() -> Iterator[str]:
            nonlocal loose
            for name in walk_images(self.root, closed):
                loose += "/" not in name
                yield name

        count, digest = _digest(names() if self.listing is None else _listed(names(), self.listing))
        return Survey(count, digest, closed, class_folders=not loose)

    def shards(self, size: int) -> Iterator[Shard]:
        walk, number = walk_images(self.root) if self.listing is None else _names_in(self.listing), 0
        while names := list(islice(walk, size)):
            yield Shard(number, _FileRows(self.root, names, names))
            number += 1


def _listed(names: Iterable[str], listing: Path) -> Iterator[str]:
    """Pass names on and write them to a file, each with a zero byte, which no name contains, at its end."""
    with atomic_write(listing) as file:
        for name in names:
            file.write(_bytes(name) + b"\0")
            yield name


def _names_in(listing: Path) -> Iterator[str]:
    begun = b""
    with listing.open("rb") as file:
        while block := file.read(_LISTING_BLOCK):
            *names, begun = (begun + block).split(b"\0")
            yield from (name.decode("utf-8", "surrogateescape") for name in names)


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


def _folder(root: Path, listing: Path | None) -> ImageStream:
    if next(walk_images(root), None) is not None:
        return _Folder(root.absolute(), listing)
    folder = list_folder(root)
    if not folder.parquet:
        raise folder.without_images()
    return _parquet([root / name for name in folder.parquet])


def _files(paths: list[Path], ids: list[str]) -> ImageStream:
    if not paths:
        raise EigenmapError("the list of images is empty")
    require_files(paths, ids)
    if all(path.suffix.lower() == ".parquet" for path in paths):
        return _parquet(paths)
    return _FileList(paths, ids)


# Parquet files


@dataclass(frozen=True)
class _ParquetRows:
    files: list[Path]
    opened: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[tuple[str, RawImage]]:
        with _unchanged(self, self.opened, self.files[0]):
            yield from named_rows(self.files, self.start, self.stop)

    def stamp(self) -> str:
        return _stamp(self.files)


@dataclass(frozen=True)
class _Parquet:
    files: list[Path]
    stamp: str
    count: int

    def survey(self) -> Survey:
        ids = (name for name, _ in named_rows(self.files, 0, self.count, images=False))
        return Survey(*_digest(ids, self.stamp))

    def shards(self, size: int) -> Iterator[Shard]:
        for number, (start, stop) in enumerate(_runs(self.count, size)):
            yield Shard(number, _ParquetRows(self.files, self.stamp, start, stop))


def _parquet(files: list[Path]) -> ImageStream:
    files = [file.absolute() for file in files]
    stamp = _stamp(files)
    count = sum(count_rows(file) for file in files)
    if count == 0:
        raise EigenmapError(f"{files[0]} holds no rows")
    return _Parquet(files, stamp, count)


# Arrays


@dataclass(frozen=True)
class _NpyFile:
    """An array that is opened where it is needed, so that a shard carries its name and not its content."""

    path: Path
    opened: str

    def stamp(self) -> str:
        return _stamp([self.path])

    @contextmanager
    def array(self) -> Iterator[Array]:
        with _unchanged(self, self.opened, self.path):
            yield read_array_file(self.path)[0]


@dataclass(frozen=True)
class _Loaded:
    images: Array
    opened: str

    def stamp(self) -> str:
        return self.opened

    @contextmanager
    def array(self) -> Iterator[Array]:
        yield self.images


@dataclass(frozen=True)
class _ArrayRows:
    source: _NpyFile | _Loaded
    first: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[tuple[str, RawImage]]:
        with self.source.array() as array:
            images = as_nhwc(as_array(array))[self.start - self.first : self.stop - self.first]
            yield from zip(map(str, range(self.start, self.stop)), images, strict=True)

    def stamp(self) -> str:
        return self.source.stamp()


@dataclass(frozen=True)
class _Arrays:
    source: _NpyFile | _Loaded

    def survey(self) -> Survey:
        return Survey(*_digest(map(str, range(self._count())), self.source.opened))

    def shards(self, size: int) -> Iterator[Shard]:
        for number, (start, stop) in enumerate(_runs(self._count(), size)):
            if isinstance(self.source, _NpyFile):
                yield Shard(number, _ArrayRows(self.source, 0, start, stop))
            else:
                part = _Loaded(as_nhwc(self.source.images)[start:stop], self.source.opened)
                yield Shard(number, _ArrayRows(part, start, start, stop))

    def _count(self) -> int:
        with self.source.array() as array:
            count = len(as_nhwc(array))
        if count == 0:
            raise EigenmapError("the array of images is empty")
        return count


def _array(path: Path) -> ImageStream:
    stamp = _stamp([path])
    if path.suffix.lower() == ".npy":
        return _Arrays(_NpyFile(path, stamp))
    return _Arrays(_Loaded(read_array_file(path)[0], stamp))


# Names and times


class _Stamped(Protocol):
    def stamp(self) -> str: ...


@contextmanager
def _unchanged(source: _Stamped, opened: str, path: Path) -> Iterator[None]:
    """Refuse a file of many images that is not, or no longer at the end, what was opened: rows may have moved."""

    def check() -> None:
        if source.stamp() != opened:
            raise EigenmapError(f"{path} was changed while it was read; run the same command again when it is complete")

    check()
    yield
    check()


def _stamp(files: Iterable[Path]) -> str:
    """A digest of sizes and times.

    The time of the last change of the inode is among them: unlike the time of writing, it cannot be set, so that a file
    copied with its old time (`cp -p`, `mv`, archives) shows.
    """
    digest = hashlib.sha256()
    for file in files:
        digest.update(_size_and_times(file).encode())
    return digest.hexdigest()


def _size_and_times(file: Path) -> str:
    try:
        status = file.stat()
    except OSError:
        return "absent\n"
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}\n"


def _runs(count: int, size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, count, size):
        yield start, min(start + size, count)


def _digest(names: Iterable[str], stamp: str = "") -> tuple[int, str]:
    """How many names there are, and a digest of them in order and of when the file that holds them was written."""
    digest, count = hashlib.sha256(stamp.encode()), 0
    for name in names:
        digest.update(_bytes(name) + b"\0")
        count += 1
    return count, digest.hexdigest()


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
