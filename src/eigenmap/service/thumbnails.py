"""Small pictures of the items: stored beside the codes when images are indexed, or read from a folder.

A store is one SQLite file in the index, so that adding to it is safe against a kill and reading one picture out of a
million takes no longer than out of ten.
"""

from __future__ import annotations

import io
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from eigenmap.data.images import UnreadableImageError, decode_image
from eigenmap.errors import EigenmapError

FILE = "thumbnails.sqlite"
LARGEST_SIDE = 96
"""Stored pictures are no larger than this, or than what the model saw."""
FOLDER_SIDE = 256
"""Side of pictures that are made from the files of a folder."""

_LOSSLESS_SIDE = 32  # below it a PNG is as small as a JPEG, and sharp
_TABLE = "CREATE TABLE IF NOT EXISTS thumbnails (id TEXT PRIMARY KEY, image BLOB NOT NULL) WITHOUT ROWID"
_CHECKSUMS = "CREATE TABLE IF NOT EXISTS checksums (id TEXT PRIMARY KEY, crc32 INTEGER NOT NULL) WITHOUT ROWID"
"""Read by `eigenmap verify`."""


class Pictures(Protocol):
    """Where the picture of an item comes from."""

    def read(self, name: str) -> bytes | None:
        """A PNG or JPEG file of the item with this id, None if there is none."""
        ...


def media_type(image: bytes) -> str:
    """What `Pictures.read` returned."""
    return "image/png" if image.startswith(b"\x89PNG") else "image/jpeg"


def encode(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A PNG (small) or JPEG file from pixels (channels, side, side)."""
    grey = pixels.shape[0] == 1
    image = Image.fromarray(pixels[0] if grey else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    if image.width > LARGEST_SIDE and image.width != FOLDER_SIDE:
        image = image.resize((LARGEST_SIDE, LARGEST_SIDE), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    if image.width <= _LOSSLESS_SIDE:
        image.save(out, "PNG", compress_level=6)
    else:
        image.save(out, "JPEG", quality=85)
    return out.getvalue()


def store(path: Path, ids: Iterable[str | int], pixels: Iterable[npt.NDArray[np.uint8]]) -> None:
    """Add pictures to the store in an index, or replace them; all of them or none.

    store(Path("photos.index"), images.ids, images.pixels.numpy())
    """
    rows = ((_stored_name(name), encode(each)) for name, each in zip(ids, pixels, strict=True))
    with _complaining(path), closing(sqlite3.connect(path / FILE)) as connection, connection:
        connection.execute("PRAGMA synchronous = EXTRA")  # or a power cut may undo what was acknowledged
        connection.execute(_TABLE)
        connection.execute(_CHECKSUMS)
        for name, image in rows:
            connection.execute("INSERT OR REPLACE INTO thumbnails VALUES (?, ?)", (name, image))
            connection.execute("INSERT OR REPLACE INTO checksums VALUES (?, ?)", (name, zlib.crc32(image)))


class StoredPictures:
    """The pictures that were stored with an index.

    >>> StoredPictures(Path("no.index")).read("a.jpg") is None
    True
    """

    def __init__(self, index: Path) -> None:
        self._file = index / FILE
        self._local = threading.local()  # a connection belongs to the thread that opened it

    def read(self, name: str) -> bytes | None:
        """A PNG or JPEG file of the item with this id, None if there is none."""
        if not self._file.is_file():
            return None
        with _complaining(self._file):
            row = self._connection().execute("SELECT image FROM thumbnails WHERE id = ?", (_stored_name(name),))
            found = row.fetchone()
        return None if found is None else bytes(found[0])

    def _connection(self) -> sqlite3.Connection:
        if not hasattr(self._local, "connection"):
            self._local.connection = _reader(self._file)
        connection: sqlite3.Connection = self._local.connection
        return connection


class FolderPictures:
    """Pictures made from the files of a folder, for ids that are paths relative to it.

    Only ids of the index get here, none that leaves the folder is followed, and what is sent is a new, small picture:
    never the bytes of a file.
    """

    def __init__(self, folder: Path, side: int = FOLDER_SIDE) -> None:
        if not folder.is_dir():
            raise EigenmapError(f"{folder} is no folder; --images names the folder that was indexed")
        self._folder = folder
        self._side = side
        self.read = lru_cache(maxsize=512)(self._read)

    def _read(self, name: str) -> bytes | None:
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts or "\0" in name:
            return None
        try:
            return encode(decode_image(self._folder / place, self._side, 3))
        except UnreadableImageError:
            return None


class FirstOf:
    """The first of several places that has a picture."""

    def __init__(self, places: Iterable[Pictures]) -> None:
        self._places = list(places)

    def read(self, name: str) -> bytes | None:
        """A PNG or JPEG file of the item with this id, None if there is none."""
        return next((image for place in self._places if (image := place.read(name)) is not None), None)


def _reader(file: Path) -> sqlite3.Connection:
    """A connection for reading, which can also undo what a killed writer left half-done; else nobody could read."""
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=rw", uri=True)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _stored_name(name: str | int) -> str:
    """SQLite holds UTF-8 only, and a file name may be anything."""
    return str(name).encode("utf-8", "surrogatepass").decode("utf-8", "backslashreplace")


@contextmanager
def _complaining(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise EigenmapError(f"the thumbnails in {path} cannot be read or written: {error}") from error
