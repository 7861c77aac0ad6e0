"""From anything that holds images to one :class:`ImageSet`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from eigenmap.core.arguments import a_path, whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.arrays import Images, as_array, as_nhwc, one_as_nhwc, read_array_file, to_pixels
from eigenmap.data.images.decode import (
    GREY_MODES,
    Encoded,
    UnreadableImageError,
    decode_image,
    quiet_pillow,
    read_header,
)
from eigenmap.data.images.folders import list_folder, require_files
from eigenmap.data.images.imageset import ImageSet
from eigenmap.data.images.labels import Labels, labels_from_csv, labels_from_folders
from eigenmap.data.images.memory import allocate_pixels
from eigenmap.data.images.parquet import open_parquet
from eigenmap.data.images.workers import decode_in_order, processors

ImageSource: TypeAlias = str | Path | Sequence[str | Path] | Images
LabelSource: TypeAlias = Labels | str | Path | Tensor | npt.ArrayLike
ProgressCallback: TypeAlias = Callable[[int, int], object]

DEFAULT_SIZE = 64
"""Side of the images where neither the caller nor the images themselves decide it."""

_SMALLEST_NATIVE = 8


def load_images(
    source: ImageSource,
    size: int | None = None,
    channels: int | None = None,
    labels: LabelSource | None = None,
    strict: bool = False,
    progress: ProgressCallback | None = None,
    workers: int | None = None,
) -> ImageSet:
    """Read images from a folder, files or arrays into one uint8 tensor, in memory or (where too large) in a file.

    Args:
        source: a folder (any depth, with or without class folders, links followed, hidden files ignored), an
            image file, a list of image files, an .npy or .npz file, a parquet file, a list or a folder of them,
            or anything :func:`to_pixels` takes.
        size: height and width of the result. None keeps the size of images that all share one square size
            between 8 and 64 pixels, so that small pictures are used as they are, and otherwise means 64.
        channels: 1 (grey) or 3. None means 1 if every image is grey, else 3.
        labels: None takes what the source says (class folders, a label column, an array of labels); else a CSV
            file (:func:`labels_from_csv`), a ``Labels`` object, or anything ``Labels.from_array`` takes, in the
            order of the source.
        strict: raise on the first unreadable image instead of skipping it.
        progress: called as ``progress(done, total)`` after every image.
        workers: decoding threads; None means one a processor.

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
    if isinstance(source, ImageSet):
        pixels = to_pixels(source, size or source.size, channels or source.channels)
        return replace(source, pixels=pixels, labels=_resolve_labels(labels, source.ids) or source.labels)
    stored = _find(source)
    if isinstance(stored, _InMemory):
        return _load_memory(stored, size, channels, labels, progress)
    return _load_files(stored, size, channels, labels, strict, progress, workers or processors())


@dataclass(frozen=True)
class _InMemory:
    """Images that need no decoding."""

    images: Any
    ids: list[str]
    labels: Labels | None = None
    file: Path | None = None


@dataclass(frozen=True)
class _OnDisk:
    """Encoded images: how many, what they are called, and a way to go through them more than once."""

    ids: list[str]
    read: Callable[[], Iterator[Encoded]]
    labels: Labels | None = None
    skipped: list[tuple[str, str]] = field(default_factory=list)


def _load_memory(
    stored: _InMemory,
    size: int | None,
    channels: int | None,
    labels: LabelSource | None,
    progress: ProgressCallback | None,
) -> ImageSet:
    known = _resolve_labels(labels, stored.ids) or stored.labels
    with _about(stored.file):
        size, channels = _shape_of_arrays(stored.images, size, channels)
        images = ImageSet(to_pixels(stored.images, size, channels), stored.ids, known)
    if progress is not None:
        progress(len(images), len(images))
    return images


def _load_files(
    stored: _OnDisk,
    size: int | None,
    channels: int | None,
    labels: LabelSource | None,
    strict: bool,
    progress: ProgressCallback | None,
    workers: int,
) -> ImageSet:
    if strict and stored.skipped:
        raise strict_error(*stored.skipped[0])
    # Labels are matched before anything is left out: a row for a damaged file is no mistake of the label file.
    known = _resolve_labels(labels, stored.ids) or stored.labels
    with quiet_pillow():
        size, channels = _shape_of_files(stored.read(), size, channels)
        pixels, skipped = _decode_all(stored, size, channels, strict, progress, workers)
    failures = stored.skipped + [(stored.ids[i], reason) for i, reason in skipped.items()]
    kept = [i for i in range(len(stored.ids)) if i not in skipped]
    if not kept:
        name, reason = failures[-1]
        raise EigenmapError(
            f"{name} cannot be read: {reason}"
            if len(failures) == 1
            else f"none of the {len(failures):,} images can be read, for example {name}: {reason}"
        )
    return ImageSet(
        pixels,
        [stored.ids[i] for i in kept],
        None if known is None else known.subset(torch.tensor(kept)),
        failures,
    )


def _find(source: ImageSource) -> _InMemory | _OnDisk:
    """Decide what the source is."""
    if isinstance(source, (str, Path)):
        return _find_path(a_path(source, "the source of images").expanduser())
    if isinstance(source, Image.Image):
        source = [source]
    if isinstance(source, (list, tuple)):
        if len(source) == 0:
            raise EigenmapError("the list of images is empty")
        paths = [Path(item).expanduser() for item in source if isinstance(item, (str, Path))]
        if len(paths) == len(source):
            return _find_list(paths, [str(item) for item in source])
        if paths:
            raise EigenmapError("a list of images holds either paths or images, not both")
        return _InMemory(source, _numbers(len(source)))
    return _in_memory(source)


def _in_memory(source: Any) -> _InMemory:
    array = as_nhwc(as_array(source))
    if len(array) == 0:
        raise EigenmapError("the array of images is empty")
    return _InMemory(source, _numbers(len(array)))


def _find_path(path: Path) -> _InMemory | _OnDisk:
    if path.is_dir():
        return _find_folder(path)
    if not path.exists():
        raise EigenmapError(f"{path} does not exist")
    require_files([path], [str(path)])
    if path.suffix.lower() in (".npy", ".npz"):
        array, labels = read_array_file(path)
        with _about(path):
            return replace(_in_memory(array), labels=labels, file=path)
    return _find_list([path], [path.name])


@contextmanager
def _about(file: Path | None) -> Iterator[None]:
    """Name the file, if it is one, in whatever is wrong with its content."""
    try:
        yield
    except EigenmapError as error:
        if file is None:
            raise
        raise EigenmapError(f"{file}: {error}") from None


def _find_folder(path: Path) -> _OnDisk:
    folder = list_folder(path)
    if folder.images:
        files = [path / name for name in folder.images]
        return _OnDisk(folder.images, lambda: iter(files), labels_from_folders(folder.images), folder.closed)
    if folder.parquet:
        return _find_parquet([path / name for name in folder.parquet])
    raise folder.without_images()


def _find_list(paths: list[Path], ids: list[str]) -> _OnDisk:
    require_files(paths, ids)
    if all(path.suffix.lower() == ".parquet" for path in paths):
        return _find_parquet(paths)
    return _OnDisk(ids, lambda: iter(paths))


def _find_parquet(files: list[Path]) -> _OnDisk:
    images = open_parquet(files)
    if not images.ids:
        raise EigenmapError(f"{files[0]} holds no rows")
    return _OnDisk(images.ids, images.read, images.labels)


def _numbers(n: int) -> list[str]:
    return [str(i) for i in range(n)]


def _shape_of_files(images: Iterable[Encoded], size: int | None, channels: int | None) -> tuple[int, int]:
    """Fill in what the caller left open from the headers, reading no more of them than needed."""
    shapes: set[tuple[int, int]] = set()
    modes: set[str] = set()
    for encoded in images:
        size_is_known = size is not None or (bool(shapes) and _native(shapes) is None)
        if size_is_known and (channels is not None or not modes <= GREY_MODES):
            break
        try:
            shape, mode = read_header(encoded)
        except UnreadableImageError:
            continue
        shapes.add(shape)
        modes.add(mode)
    return size or _native(shapes) or DEFAULT_SIZE, channels or (1 if modes <= GREY_MODES else 3)


def _shape_of_arrays(images: Any, size: int | None, channels: int | None) -> tuple[int, int]:
    """Fill in what the caller left open from images in memory."""
    shapes: set[tuple[int, int]] = set()
    depths: set[int] = set()
    for image in images if isinstance(images, (list, tuple)) else [images]:
        if isinstance(image, Image.Image):
            shapes.add(image.size)
            depths.add(1 if image.mode in GREY_MODES else 3)
        else:
            array = as_array(image)
            _, height, width, depth = (as_nhwc(array) if image is images else one_as_nhwc(array)).shape
            shapes.add((width, height))
            depths.add(depth)
    return size or _native(shapes) or DEFAULT_SIZE, channels or (1 if depths == {1} else 3)


def _native(shapes: set[tuple[int, int]]) -> int | None:
    """Return the side all images share, if they do and it is small but not tiny."""
    if len(shapes) != 1:
        return None
    width, height = next(iter(shapes))
    return width if width == height and _SMALLEST_NATIVE <= width <= DEFAULT_SIZE else None


def _decode_all(
    stored: _OnDisk, size: int, channels: int, strict: bool, progress: ProgressCallback | None, workers: int
) -> tuple[Tensor, dict[int, str]]:
    """Decode into one tensor, allocated once; also return {position: reason} of what could not be read."""
    total = len(stored.ids)
    pixels = allocate_pixels(total, channels, size)
    rows = pixels.numpy()
    skipped: dict[int, str] = {}
    square = partial(decode_image, size=size, channels=channels)
    for i, result in enumerate(decode_in_order(stored.read(), square, workers)):
        if isinstance(result, UnreadableImageError):
            if strict:
                raise strict_error(stored.ids[i], str(result))
            skipped[i] = str(result)
        else:
            rows[i - len(skipped)] = result
        if progress is not None:
            progress(i + 1, total)
    return pixels[: total - len(skipped)], skipped


def _resolve_labels(labels: LabelSource | None, ids: list[str]) -> Labels | None:
    """Turn what the caller or the source gave into ``Labels`` of all images."""
    if labels is None:
        return None
    if isinstance(labels, (str, Path)):
        return labels_from_csv(labels, ids)
    found = labels if isinstance(labels, Labels) else Labels.from_array(labels)
    if len(found) != len(ids):
        raise EigenmapError(f"{len(found):,} labels are given for {len(ids):,} images")
    return found


def strict_error(name: str, reason: str) -> EigenmapError:
    """What to raise on an unreadable image where none may be left out."""
    return EigenmapError(f"{name} cannot be read: {reason}; repair or remove it, or allow files to be skipped")
