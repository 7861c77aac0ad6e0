"""Rows of images: part of a source, read one by one and decoded in parallel."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from PIL import Image

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.arrays import Array, to_pixels
from eigenmap.data.images.decode import Encoded, Pixels, UnreadableImageError, decode_image
from eigenmap.data.images.labels import Labels
from eigenmap.data.images.workers import decode_in_order

RawImage: TypeAlias = Encoded | Array | Image.Image
"""A file, the bytes of one, the values of an image (H, W, C), or a Pillow image."""

Skipped: TypeAlias = list[tuple[str, str]]
"""(name, reason) of images that could not be read."""


class ImageRows(Protocol):
    """Part of a source; each iteration reads its images one by one."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[tuple[str, RawImage]]: ...

    def labels(self) -> list[list[str]]:
        """Return the classes of each image, if the survey says that they are known."""
        ...

    def stamp(self) -> str:
        """Return a digest of the sizes and times of the files of these images; it changes when one is written."""
        ...


@runtime_checkable
class ArrayRows(Protocol):
    """Rows of one array, converted in blocks."""

    def blocks(self, size: int, channels: int) -> Iterator[tuple[list[str], Pixels]]:
        """Yield the names and the 8-bit pixels (n, channels, size, size) of n images at a time."""
        ...


@dataclass(frozen=True)
class Shard:
    """Consecutive images that are processed together."""

    number: int
    rows: ImageRows


@dataclass(frozen=True)
class Survey:
    """Result of a first pass over the names of a source.

    Attributes:
        count: number of images.
        digest: changes when a name is added, removed or changed, or a file of many images is written; changes to single
            pictures show in the stamps of the shards.
        skipped: (folder, reason) of folders that cannot be opened.
        labelled: whether the classes of the images are known, by class folders, a column or an array.

    """

    count: int
    digest: str
    skipped: Skipped = field(default_factory=list)
    labelled: bool = False


class Whole(NamedTuple):
    """All images of a source, with names and classes in memory."""

    rows: ImageRows
    ids: list[str]
    labels: Labels | None = None
    skipped: Skipped = []  # noqa: RUF012 - never changed


class ImageStream(Protocol):
    """A source of images that can be read repeatedly."""

    def survey(self) -> Survey:
        """Scan the names of all images in constant memory."""
        ...

    def shards(self, size: int) -> Iterator[Shard]:
        """Yield shards of `size` images, numbered from 0."""
        ...

    def whole(self) -> Whole:
        """Return all images as one part."""
        ...


def square(picture: RawImage, size: int, channels: int) -> Pixels:
    """Return one image as 8-bit pixels (channels, size, size)."""
    if picture is None or isinstance(picture, (Path, bytes)):
        return decode_image(picture, size, channels)
    return to_pixels([picture], size, channels)[0].numpy()


def decoded(
    rows: Iterable[tuple[str, RawImage]], size: int, channels: int, workers: int, ahead: int | None = None
) -> Iterator[tuple[str, Pixels | UnreadableImageError]]:
    """Yield the name and the pixels of each image, in order, or the reason why it cannot be read.

    Files are decoded on threads, at most `ahead` images before they are requested.
    """
    if isinstance(rows, ArrayRows):
        for ids, block in rows.blocks(size, channels):
            yield from zip(ids, block, strict=True)
        return
    names: deque[str] = deque()

    def pictures() -> Iterator[RawImage]:
        for name, picture in rows:
            names.append(name)
            yield picture

    for result in decode_in_order(pictures(), partial(square, size=size, channels=channels), workers, ahead):
        yield names.popleft(), result


def strict_error(name: str, reason: str) -> EigenmapError:
    """Return the error for an unreadable image when none may be skipped."""
    return EigenmapError(f"{name} cannot be read: {reason}; repair or remove it")


def nothing_readable(skipped: Skipped) -> EigenmapError:
    """Return the error for a source without a readable image."""
    name, reason = skipped[-1]
    if len(skipped) == 1:
        return EigenmapError(f"{name} cannot be read: {reason}")
    return EigenmapError(f"none of the {len(skipped):,} images can be read, for example {name}: {reason}")


# Names and times


class _Stamped(Protocol):
    def stamp(self) -> str: ...


@contextmanager
def unchanged(source: _Stamped, opened: str, path: Path) -> Iterator[None]:
    """Raise if a file of many images changes while it is read, since rows may have moved."""

    def check() -> None:
        if source.stamp() != opened:
            raise EigenmapError(f"{path} changed while it was being read; run the command again when it is complete")

    check()
    yield
    check()


def stamp_of(files: Iterable[Path]) -> str:
    """Return a digest of sizes and times.

    It includes the inode change time, which, unlike the modification time, cannot be set: a file copied with its old
    time (`cp -p`, `mv`, archives) is noticed.
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


def runs(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of consecutive parts of `size` rows."""
    for start in range(0, count, size):
        yield start, min(start + size, count)


def digest_of(names: Iterable[str], stamp: str = "") -> tuple[int, str]:
    """Return the number of names, and a digest of the names in order and of the stamp."""
    digest, count = hashlib.sha256(stamp.encode()), 0
    for name in names:
        digest.update(name_bytes(name) + b"\0")
        count += 1
    return count, digest.hexdigest()


def name_bytes(name: str) -> bytes:
    """Return the bytes of a file name."""
    return name.encode("utf-8", "surrogateescape")
