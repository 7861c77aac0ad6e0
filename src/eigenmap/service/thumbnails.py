"""Small pictures of the items: stored beside the codes when images are indexed, or read from a folder.

A store is one SQLite file in the index, so that adding to it is safe against a kill and reading one picture out of a
million takes no longer than out of ten.
"""

from __future__ import annotations

import io
import os
import sqlite3
import stat
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.decode import UnreadableImageError, decode_image
from eigenmap.search.parts import PICTURES, require_own
from eigenmap.service.contained_files import opened_inside

FILE = PICTURES
LARGEST_SIDE = 96
"""Stored pictures are no larger than this, or than what the model saw."""
FOLDER_SIDE = 256
"""Side of pictures that are made from the files of a folder."""

LARGEST_FILE = 256 * 2**20
"""Bytes of a file of a folder that is shown; of larger ones there is the stored picture."""

_REMEMBERED = 512
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
    store_encoded(path, ids, map(encode, pixels))


def store_encoded(path: Path, ids: Iterable[str | int], pictures: Iterable[bytes]) -> None:
    """The same with pictures that `encode` has made."""
    rows = ((_stored_name(name), each) for name, each in zip(ids, pictures, strict=True))
    require_own(path / FILE)  # SQLite would follow a link, and write wherever it leads
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
        try:
            now = self._file.lstat()
        except OSError:
            return None
        if not stat.S_ISREG(now.st_mode):
            return None
        with _complaining(self._file):
            connection = self._connection((now.st_dev, now.st_ino))
            found = connection.execute("SELECT image FROM thumbnails WHERE id = ?", (_stored_name(name),)).fetchone()
        return None if found is None else bytes(found[0])

    def _connection(self, file: tuple[int, int]) -> sqlite3.Connection:
        """A connection to the file that has the name now: an index may be replaced while it is open."""
        if getattr(self._local, "file", None) != file:
            if hasattr(self._local, "connection"):
                self._local.connection.close()
            self._local.connection = _reader(self._file)
            self._local.file = file
        connection: sqlite3.Connection = self._local.connection
        return connection


class FolderPictures:
    """Pictures made from the files of a folder, for ids that are paths relative to it.

    Nothing that leads out of the folder is followed, nothing but regular files is opened, and what is sent is a new,
    small picture: never the bytes of a file. A picture is remembered as long as its file stays as it is.
    """

    def __init__(self, folder: Path, side: int = FOLDER_SIDE) -> None:
        if not folder.is_dir():
            raise EigenmapError(f"{folder} is no folder; --images names the folder that was indexed")
        self._folder = folder
        self._side = side
        self._remembered: OrderedDict[tuple[str, int, int, int, int], bytes | None] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, name: str) -> bytes | None:
        """A PNG or JPEG file of the item with this id, None if there is none."""
        try:
            with opened_inside(self._folder, name) as descriptor:
                now = os.fstat(descriptor)
                state = (name, now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)
                with self._lock:
                    if state in self._remembered:
                        self._remembered.move_to_end(state)
                        return self._remembered[state]
                content = _content(descriptor, now.st_size)
        except (OSError, ValueError):  # not there, not inside, no regular file, or no name that a file can have
            return None
        picture = None if content is None else self._made(content)
        with self._lock:
            self._remembered[state] = picture
            while len(self._remembered) > _REMEMBERED:
                self._remembered.popitem(last=False)
        return picture

    def _made(self, content: bytes) -> bytes | None:
        try:
            return encode(decode_image(content, self._side, 3))
        except UnreadableImageError:
            return None


def _content(descriptor: int, size: int) -> bytes | None:
    """All bytes of a file, None if it is too large to be read for a picture."""
    if size > LARGEST_FILE:
        return None
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read(LARGEST_FILE)


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
