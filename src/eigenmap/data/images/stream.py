"""Image streams: sources cut into shards that are read independently, in constant memory.

    stream = open_stream("PHOTOS/")
    for shard in stream.shards(10_000):
        for name, image in shard.rows:
            pixels = square(image, size=64, channels=3)

Only this module decides what a source is; :func:`eigenmap.data.load_images` loads streams opened here. Folders are
walked, not listed; Parquet files are read in small batches; .npy files are memory-mapped. Shards can be pickled, so
another machine may read them.

Sources may change while they are read, which can take days. With a listing, the survey writes the names to a file and
the shards take them from there, so files that appear or disappear meanwhile do not matter. A picture that is replaced
changes its shard's `stamp`. A file of many images must not change; otherwise reading it is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from eigenmap.core.arguments import a_path
from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.array_streams import array_stream, held_stream
from eigenmap.data.images.arrays import Images
from eigenmap.data.images.file_streams import FileListStream, FolderStream
from eigenmap.data.images.folders import list_folder, require_files, walk_images
from eigenmap.data.images.parquet import parquet_stream
from eigenmap.data.images.rows import ImageStream

ImageSource: TypeAlias = str | Path | Sequence[str | Path] | Images


def open_stream(source: ImageSource, listing: Path | None = None) -> ImageStream:
    """Open a source of images.

    A source is a folder of image or Parquet files, an image file or a list of them, an .npy or .npz file, a Parquet
    file or a list of them, or images in memory in any form that :func:`.arrays.to_pixels` takes.

    With `listing`, the survey of a folder of images writes their names to that file, and the shards use those names in
    every process, whatever is added to or removed from the folder in the meantime.
    """
    if isinstance(source, (str, Path)):
        return _at(a_path(source, "the source of images").expanduser(), listing)
    if isinstance(source, (list, tuple)):
        if not source:
            raise EigenmapError("the list of images is empty")
        paths = [Path(item).expanduser() for item in source if isinstance(item, (str, Path))]
        if len(paths) == len(source):
            return _files(paths, [str(item) for item in source])
        if paths:
            raise EigenmapError("a list of images must contain either paths or images, not both")
    return held_stream(source)  # type: ignore[arg-type]


def _at(path: Path, listing: Path | None) -> ImageStream:
    if path.is_dir():
        return _folder(path, listing)
    if not path.exists():
        raise EigenmapError(f"{path} does not exist")
    require_files([path], [str(path)])
    if path.suffix.lower() in (".npy", ".npz"):
        return array_stream(path.absolute())
    return _files([path], [path.name])


def _folder(root: Path, listing: Path | None) -> ImageStream:
    if next(walk_images(root), None) is not None:
        return FolderStream(root.absolute(), listing)
    folder = list_folder(root)
    if not folder.parquet:
        raise folder.without_images()
    return parquet_stream([root / name for name in folder.parquet])


def _files(paths: list[Path], ids: list[str]) -> ImageStream:
    require_files(paths, ids)
    if all(path.suffix.lower() == ".parquet" for path in paths):
        return parquet_stream(paths)
    return FileListStream(paths, ids)
