"""Loading of a source of images into one :class:`ImageSet`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.array_streams import HeldStream, naming
from eigenmap.data.images.arrays import to_pixels
from eigenmap.data.images.decode import (
    GREY_MODES,
    Encoded,
    UnreadableImageError,
    decode_whole,
    quiet_pillow,
    read_header,
)
from eigenmap.data.images.imageset import ImageSet
from eigenmap.data.images.labels import Labels, labels_from_csv
from eigenmap.data.images.memory import allocate_pixels
from eigenmap.data.images.rows import ArrayRows, ImageRows, RawImage, decoded, nothing_readable, strict_error
from eigenmap.data.images.stream import ImageSource, open_stream
from eigenmap.data.images.workers import decode_in_order, processors

LabelSource: TypeAlias = Labels | str | Path | Tensor | npt.ArrayLike
ProgressCallback: TypeAlias = Callable[[int, int], object]

DEFAULT_SIZE = 64
"""Side of the images if neither the caller nor the images determine it."""

_SMALLEST_NATIVE = 8


def load_images(
    source: ImageSource,
    size: int | None = None,
    channels: int | None = None,
    labels: LabelSource | None = None,
    strict: bool = False,
    progress: ProgressCallback | None = None,
    workers: int | None = None,
    uncut: bool = False,
) -> ImageSet:
    """Read images from a folder, files or arrays into one uint8 tensor, in memory or (if too large) in a file.

    Args:
        source: a folder (any depth, with or without class folders, links followed, hidden files ignored), an
            image file, a list of image files, an .npy or .npz file, a parquet file, a list or a folder of them,
            or anything :func:`to_pixels` takes.
        size: height and width of the result. None keeps the size of images that all share one square size
            between 8 and 64 pixels, so that small pictures stay unchanged, and otherwise means 64.
        channels: 1 (grey) or 3. None means 1 if every image is grey, else 3.
        labels: None uses those of the source (class folders, a label column, an array of labels); else a CSV
            file (:func:`labels_from_csv`), a ``Labels`` object, or anything ``Labels.from_array`` takes, in the
            order of the source.
        strict: raise on the first unreadable image instead of skipping it.
        progress: called as ``progress(done, total)`` after every image.
        workers: decoding threads; None means one per processor.
        uncut: squeeze uncropped pictures into the squares, instead of cropping their centres, and keep their aspect
            ratios in ``.aspects``; pictures in memory must be square.

    Unreadable files are left out and listed in ``.skipped`` with the reason.

    Example:
        >>> images = load_images("PHOTOS/", size=96)  # doctest: +SKIP
        >>> images.pixels.shape, images.ids[0], len(images.skipped)  # doctest: +SKIP
        (torch.Size([1200, 3, 96, 96]), 'holiday/beach.jpg', 2)

    """
    size = None if size is None else whole_number(size, "the image size")
    if workers is not None:
        whole_number(workers, "workers", 0)
    if channels not in (None, 1, 3):
        raise EigenmapError(f"images have 1 channel (grey) or 3 (colour), not {channels}")
    stream = open_stream(source)
    whole = stream.whole()
    if strict and whole.skipped and not isinstance(stream, HeldStream):
        raise strict_error(*whole.skipped[0])
    # Labels are matched before unreadable files are left out, since their rows in the label file are correct.
    known = _resolve_labels(labels, whole.ids) or whole.labels
    if isinstance(stream, HeldStream):
        images = _convert(stream, size, channels, known, progress)
        return replace(images, aspects=_square_aspects(stream.rows)) if uncut else images
    aspects = None
    with quiet_pillow():
        shape = _shape(whole.rows, size, channels)
        how = (*shape, strict, progress, workers or processors())
        if uncut and not isinstance(whole.rows, ArrayRows):
            pixels, skipped, aspects = _decode_uncut(whole.rows, *how)
        else:
            aspects = _square_aspects(whole.rows) if uncut else None
            pixels, skipped = _decode(whole.rows, *how)
    failures = whole.skipped + [(whole.ids[i], reason) for i, reason in skipped.items()]
    kept = [i for i in range(len(whole.ids)) if i not in skipped]
    if not kept:
        raise nothing_readable(failures)
    return ImageSet(
        pixels,
        [whole.ids[i] for i in kept],
        None if known is None else known.subset(torch.tensor(kept)),
        failures,
        aspects,
    )


def _convert(
    stream: HeldStream, size: int | None, channels: int | None, labels: Labels | None, progress: ProgressCallback | None
) -> ImageSet:
    """Convert images in memory; pixels of the right size are not copied."""
    given, rows = stream.given, stream.rows
    if isinstance(given, ImageSet):
        shape = size or given.size, channels or given.channels
    else:
        shape = _shape(rows, size, channels)
    with naming(rows.file):
        pixels = to_pixels(given, *shape)
    if progress is not None and not isinstance(given, ImageSet):
        progress(len(rows), len(rows))
    return ImageSet(pixels, rows.ids, labels, stream.skipped)


def _shape(rows: ImageRows, size: int | None, channels: int | None) -> tuple[int, int]:
    """Return size and channels, read from as few headers as possible if the caller did not give them."""
    shapes: set[tuple[int, int]] = set()
    grey = True
    for _, picture in islice(rows, 1) if isinstance(rows, ArrayRows) else rows:  # images of an array have one shape
        size_is_known = size is not None or (bool(shapes) and _native(shapes) is None)
        if size_is_known and (channels is not None or not grey):
            break
        try:
            shape, is_grey = _header(picture)
        except UnreadableImageError:
            continue
        shapes.add(shape)
        grey = grey and is_grey
    return size or _native(shapes) or DEFAULT_SIZE, channels or (1 if grey else 3)


def _header(picture: RawImage) -> tuple[tuple[int, int], bool]:
    """Return width and height of an image, and whether it is grey."""
    if picture is None or isinstance(picture, (Path, bytes)):
        shape, mode = read_header(picture)
        return shape, mode in GREY_MODES
    if isinstance(picture, Image.Image):
        return picture.size, picture.mode in GREY_MODES
    height, width, depth = picture.shape
    return (width, height), depth == 1


def _native(shapes: set[tuple[int, int]]) -> int | None:
    """Return the side if all images are squares of one size, small but not tiny; else None."""
    if len(shapes) != 1:
        return None
    width, height = next(iter(shapes))
    return width if width == height and _SMALLEST_NATIVE <= width <= DEFAULT_SIZE else None


def _decode(
    rows: ImageRows, size: int, channels: int, strict: bool, progress: ProgressCallback | None, workers: int
) -> tuple[Tensor, dict[int, str]]:
    """Decode into one tensor, allocated once; also return {position: reason} for unreadable images."""
    pixels = allocate_pixels(len(rows), channels, size)
    target = pixels.numpy()
    if isinstance(rows, ArrayRows):
        done = 0
        for ids, block in rows.blocks(size, channels):
            target[done : done + len(ids)] = block
            done += len(ids)
            if progress is not None:
                progress(done, len(rows))
        return pixels, {}
    skipped: dict[int, str] = {}
    for i, (name, result) in enumerate(decoded(rows, size, channels, workers)):
        if isinstance(result, UnreadableImageError):
            if strict:
                raise strict_error(name, str(result))
            skipped[i] = str(result)
        else:
            target[i - len(skipped)] = result
        if progress is not None:
            progress(i + 1, len(rows))
    return pixels[: len(rows) - len(skipped)], skipped


def _decode_uncut(
    rows: ImageRows, size: int, channels: int, strict: bool, progress: ProgressCallback | None, workers: int
) -> tuple[Tensor, dict[int, str], Tensor]:
    """Decode uncropped pictures; also return {position: reason} for unreadable ones, and each width / height."""
    pixels = allocate_pixels(len(rows), channels, size)
    target = pixels.numpy()
    skipped: dict[int, str] = {}
    aspects: list[float] = []
    names: deque[str] = deque()

    def files() -> Iterator[Encoded]:
        for name, picture in rows:
            assert picture is None or isinstance(picture, (Path, bytes))
            names.append(name)
            yield picture

    squeezed = partial(decode_whole, size=size, channels=channels)
    for i, result in enumerate(decode_in_order(files(), squeezed, workers)):
        name = names.popleft()
        if isinstance(result, UnreadableImageError):
            if strict:
                raise strict_error(name, str(result))
            skipped[i] = str(result)
        else:
            target[i - len(skipped)], aspect = result
            aspects.append(aspect)
        if progress is not None:
            progress(i + 1, len(rows))
    return pixels[: len(rows) - len(skipped)], skipped, torch.tensor(aspects)


def _square_aspects(rows: ImageRows) -> Tensor:
    """Return aspect ratios of 1 for pictures in memory; refuse pictures that are not square."""
    for _, picture in islice(rows, 1) if isinstance(rows, ArrayRows) else rows:
        (width, height), _ = _header(picture)
        if width != height:
            raise EigenmapError(
                f"uncut needs square pictures in memory, not {width} x {height} pixels: give a folder of files instead"
            )
    return torch.ones(len(rows))


def _resolve_labels(labels: LabelSource | None, ids: list[str]) -> Labels | None:
    """Convert given labels to ``Labels`` of all images; None if none are given."""
    if labels is None:
        return None
    if isinstance(labels, (str, Path)):
        return labels_from_csv(labels, ids)
    found = labels if isinstance(labels, Labels) else Labels.from_array(labels)
    if len(found) != len(ids):
        raise EigenmapError(f"{len(found):,} labels for {len(ids):,} images: give one per image")
    return found
