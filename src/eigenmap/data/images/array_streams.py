"""Streams of decoded images: arrays in memory or in NumPy files, Pillow images, image sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.arrays import Array, Images, as_array, as_nhwc, one_as_nhwc, read_array_file, to_pixels
from eigenmap.data.images.decode import Pixels
from eigenmap.data.images.imageset import ImageSet
from eigenmap.data.images.labels import Labels
from eigenmap.data.images.rows import RawImage, Shard, Skipped, Survey, Whole, digest_of, runs, stamp_of, unchanged

_MOST, _BLOCK_BYTES = 1024, 2**24
"""Largest number of images converted at a time, and of bytes."""

RowsT = TypeVar("RowsT", bound="PictureRows")


# In memory


@dataclass(frozen=True)
class PictureRows:
    """Images in memory, each of its own size."""

    pictures: Sequence[RawImage] | Array
    ids: list[str]
    known: Labels | None = None
    file: Path | None = None
    opened: str = ""

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[str, RawImage]]:
        yield from zip(self.ids, self.pictures, strict=True)

    def labels(self) -> list[list[str]]:
        """Return the classes of each image."""
        return [[] for _ in self.ids] if self.known is None else self.known.rows()

    def stamp(self) -> str:
        """Return the stamp that the file had when it was read."""
        return self.opened

    def part(self: RowsT, start: int, stop: int) -> RowsT:
        """Return the images from `start` to `stop`."""
        known = None if self.known is None else self.known.part(start, stop)
        return replace(self, pictures=self.pictures[start:stop], ids=self.ids[start:stop], known=known)


@dataclass(frozen=True)
class HeldRows(PictureRows):
    """Images in memory as one array (N, H, W, C)."""

    pictures: Array

    def blocks(self, size: int, channels: int) -> Iterator[tuple[list[str], Pixels]]:
        """Yield names and pixels, some images at a time."""
        with naming(self.file):
            for start, stop, pixels in _converted(self.pictures, size, channels):
                yield self.ids[start:stop], pixels


@dataclass(frozen=True)
class HeldStream:
    """Images in memory; `given` has any form that `to_pixels` takes."""

    given: Images
    rows: PictureRows
    skipped: Skipped = field(default_factory=list)

    def survey(self) -> Survey:
        """Count the images."""
        labelled = self.rows.known is not None
        return Survey(*digest_of(self.rows.ids, self.rows.opened), self.skipped, labelled)

    def shards(self, size: int) -> Iterator[Shard]:
        """Yield shards; each contains only its own images."""
        for number, (start, stop) in enumerate(runs(len(self.rows), size)):
            yield Shard(number, self.rows.part(start, stop))

    def whole(self) -> Whole:
        """Return the images."""
        return Whole(self.rows, self.rows.ids, self.rows.known, self.skipped)


def held_stream(images: Images) -> HeldStream:
    """Return the stream of anything that `to_pixels` takes."""
    if isinstance(images, ImageSet):
        pixels = as_array(images.pixels).transpose(0, 2, 3, 1)
        return HeldStream(images, HeldRows(pixels, images.ids, images.labels), images.skipped)
    if isinstance(images, Image.Image):
        images = [images]
    if isinstance(images, (list, tuple)):
        pictures = [image if isinstance(image, Image.Image) else one_as_nhwc(as_array(image))[0] for image in images]
        return HeldStream(images, PictureRows(pictures, _numbers(len(pictures))))
    array = _not_empty(as_nhwc(as_array(images)))
    return HeldStream(images, HeldRows(array, _numbers(len(array))))


# In files


def array_stream(path: Path) -> HeldStream | NpyStream:
    """Return the stream of an .npy file, which is mapped into memory, or of an .npz file, which is loaded."""
    opened = stamp_of([path])
    if path.suffix.lower() == ".npy":
        return NpyStream(path, opened)
    images, labels = read_array_file(path)
    with naming(path):
        array = _not_empty(as_nhwc(as_array(images)))
        if labels is not None and len(labels) != len(array):
            raise EigenmapError(f"{len(labels)} labels for {len(array)} images: give one per image")
    return HeldStream(images, HeldRows(array, _numbers(len(array)), labels, path, opened))


@dataclass(frozen=True)
class NpyRows:
    """Rows of an .npy file, which is opened when they are read, so that a pickled shard is small."""

    path: Path
    opened: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[tuple[str, RawImage]]:
        with self._images() as images:
            yield from zip(map(str, range(self.start, self.stop)), images, strict=True)

    def blocks(self, size: int, channels: int) -> Iterator[tuple[list[str], Pixels]]:
        """Yield names and pixels, some images at a time."""
        with self._images() as images, naming(self.path):
            for start, stop, pixels in _converted(images, size, channels):
                yield [str(self.start + row) for row in range(start, stop)], pixels

    def labels(self) -> list[list[str]]:
        """Return no classes: an .npy file has none."""
        return [[] for _ in range(len(self))]

    def stamp(self) -> str:
        """Return a digest of the size and times of the file."""
        return stamp_of([self.path])

    @contextmanager
    def _images(self) -> Iterator[Array]:
        with unchanged(self, self.opened, self.path):
            yield _images_in(self.path)[self.start : self.stop]


@dataclass(frozen=True)
class NpyStream:
    """The images of an .npy file."""

    path: Path
    opened: str

    def survey(self) -> Survey:
        """Count the images."""
        return Survey(*digest_of(map(str, range(self._count())), self.opened))

    def shards(self, size: int) -> Iterator[Shard]:
        """Yield shards of the rows."""
        for number, (start, stop) in enumerate(runs(self._count(), size)):
            yield Shard(number, NpyRows(self.path, self.opened, start, stop))

    def whole(self) -> Whole:
        """Return all rows."""
        count = self._count()
        return Whole(NpyRows(self.path, self.opened, 0, count), _numbers(count))

    def _count(self) -> int:
        with unchanged(NpyRows(self.path, self.opened, 0, 0), self.opened, self.path):
            return len(_images_in(self.path))


def _images_in(path: Path) -> Array:
    """Map the images of an .npy file (N, H, W, C) into memory."""
    array, _ = read_array_file(path)
    with naming(path):
        return _not_empty(as_nhwc(np.asarray(array)))  # slicing a plain array is much faster than a memmap


@contextmanager
def naming(file: Path | None) -> Iterator[None]:
    """Prefix errors with the name of the file, if there is one."""
    try:
        yield
    except EigenmapError as error:
        if file is None:
            raise
        raise EigenmapError(f"{file}: {error}") from None


def _converted(array: Array, size: int, channels: int) -> Iterator[tuple[int, int, Pixels]]:
    """Yield (start, stop, pixels) of some images at a time."""
    at_a_time = max(1, min(_MOST, _BLOCK_BYTES // max(1, array[:1].nbytes)))
    for start, stop in runs(len(array), at_a_time):
        yield start, stop, to_pixels(array[start:stop], size, channels).numpy()


def _not_empty(array: Array) -> Array:
    if len(array) == 0:
        raise EigenmapError("the array of images is empty")
    return array


def _numbers(count: int) -> list[str]:
    return [str(i) for i in range(count)]
