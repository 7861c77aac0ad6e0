"""Thumbnails of the items, stored with the index or made from the files of a folder.

They are stored in one SQLite file inside the index: additions survive a kill, and reading one of a million pictures is
as fast as reading one of ten.
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
"""Maximum side of stored pictures in pixels; the model's input size if that is smaller."""
FOLDER_SIDE = 256
"""Side of pictures made from the files of a folder."""

LARGEST_FILE = 256 * 2**20
"""Maximum size in bytes of a file that is decoded for display; for larger files the stored picture is shown."""

_REMEMBERED = 512
_LOSSLESS_SIDE = 32  # up to this side, a PNG is as small as a JPEG, and sharp
_TABLE = "CREATE TABLE IF NOT EXISTS thumbnails (id TEXT PRIMARY KEY, image BLOB NOT NULL) WITHOUT ROWID"
_CHECKSUMS = "CREATE TABLE IF NOT EXISTS checksums (id TEXT PRIMARY KEY, crc32 INTEGER NOT NULL) WITHOUT ROWID"
"""Checked by `eigenmap verify`."""


class Pictures(Protocol):
    """Source of the items' pictures."""

    def read(self, name: str) -> bytes | None:
        """Return a PNG or JPEG file of the item with this id, or None."""
        ...


def media_type(image: bytes) -> str:
    """Return the media type of a picture returned by `Pictures.read`."""
    return "image/png" if image.startswith(b"\x89PNG") else "image/jpeg"


def encode(pixels: npt.NDArray[np.uint8], largest: int = LARGEST_SIDE) -> bytes:
    """Encode pixels (channels, side, side) as a PNG (small) or JPEG file of at most `largest` pixels a side."""
    grey = pixels.shape[0] == 1
    image = Image.fromarray(pixels[0] if grey else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    if image.width > largest:
        image = image.resize((largest, largest), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    if image.width <= _LOSSLESS_SIDE:
        image.save(out, "PNG", compress_level=6)
    else:
        image.save(out, "JPEG", quality=85)
    return out.getvalue()


def store(path: Path, ids: Iterable[str | int], pixels: Iterable[npt.NDArray[np.uint8]]) -> None:
    """Add pictures to the store of an index or replace them: all of them or none.

    store(Path("photos.index"), images.ids, images.pixels.numpy())
    """
    store_encoded(path, ids, map(encode, pixels))


def store_encoded(path: Path, ids: Iterable[str | int], pictures: Iterable[bytes]) -> None:
    """Store pictures that `encode` returned."""
    rows = ((_stored_name(name), each) for name, each in zip(ids, pictures, strict=True))
    require_own(path / FILE)  # SQLite would follow a link and write to its target
    with _readable_errors(path), closing(sqlite3.connect(path / FILE)) as connection, connection:
        connection.execute("PRAGMA synchronous = EXTRA")  # otherwise a power cut may undo an acknowledged write
        connection.execute(_TABLE)
        connection.execute(_CHECKSUMS)
        for name, image in rows:
            connection.execute("INSERT OR REPLACE INTO thumbnails VALUES (?, ?)", (name, image))
            connection.execute("INSERT OR REPLACE INTO checksums VALUES (?, ?)", (name, zlib.crc32(image)))


def forget(path: Path, ids: Iterable[str | int]) -> None:
    """Delete pictures from the store of an index, if it has one; deleted bytes are overwritten."""
    if not (path / FILE).is_file():
        return
    require_own(path / FILE)
    names = [(_stored_name(name),) for name in ids]
    with _readable_errors(path), closing(sqlite3.connect(path / FILE)) as connection, connection:
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA secure_delete = ON")
        connection.executemany("DELETE FROM thumbnails WHERE id = ?", names)
        connection.executemany("DELETE FROM checksums WHERE id = ?", names)


class StoredPictures:
    """Pictures stored with an index.

    >>> StoredPictures(Path("no.index")).read("a.jpg") is None
    True
    """

    def __init__(self, index: Path) -> None:
        self._file = index / FILE
        self._local = threading.local()  # a connection belongs to the thread that opened it

    def read(self, name: str) -> bytes | None:
        """Return a PNG or JPEG file of the item with this id, or None."""
        try:
            now = self._file.lstat()
        except OSError:
            return None
        if not stat.S_ISREG(now.st_mode):
            return None
        with _readable_errors(self._file):
            connection = self._connection((now.st_dev, now.st_ino))
            found = connection.execute("SELECT image FROM thumbnails WHERE id = ?", (_stored_name(name),)).fetchone()
        if found is not None and not isinstance(found[0], bytes):
            raise EigenmapError(f"the thumbnails in {self._file} are damaged: that of {name} is not a picture")
        return None if found is None else found[0]

    def _connection(self, file: tuple[int, int]) -> sqlite3.Connection:
        """Return a connection to the current file, since an index may be replaced while it is open."""
        if getattr(self._local, "file", None) != file:
            if hasattr(self._local, "connection"):
                self._local.connection.close()
            self._local.connection = _reader(self._file)
            self._local.file = file
        connection: sqlite3.Connection = self._local.connection
        return connection


class FolderPictures:
    """Pictures made from the files of a folder, for ids that are paths relative to it.

    Links that lead out of the folder are not followed, only regular files are opened, and the answer is a new, small
    picture, never the bytes of a file. A picture is cached as long as its file does not change.
    """

    def __init__(self, folder: Path, side: int = FOLDER_SIDE) -> None:
        if not folder.is_dir():
            raise EigenmapError(f"{folder} is not a folder; give the folder that was indexed as images=")
        self._folder = folder
        self._side = side
        self._remembered: OrderedDict[tuple[str, int, int, int, int], bytes | None] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, name: str) -> bytes | None:
        """Return a PNG or JPEG file of the item with this id, or None."""
        try:
            with opened_inside(self._folder, name) as descriptor:
                now = os.fstat(descriptor)
                state = (name, now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)
                with self._lock:
                    if state in self._remembered:
                        self._remembered.move_to_end(state)
                        return self._remembered[state]
                content = _content(descriptor, now.st_size)
        except (OSError, ValueError):  # missing, outside the folder, not a regular file, or not a valid file name
            return None
        picture = None if content is None else self._made(content)
        with self._lock:
            self._remembered[state] = picture
            while len(self._remembered) > _REMEMBERED:
                self._remembered.popitem(last=False)
        return picture

    def _made(self, content: bytes) -> bytes | None:
        try:
            return encode(decode_image(content, self._side, 3), self._side)
        except UnreadableImageError:
            return None


def _content(descriptor: int, size: int) -> bytes | None:
    """Return all bytes of a file, or None if it is too large to decode for display."""
    if size > LARGEST_FILE:
        return None
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read(LARGEST_FILE)


def _reader(file: Path) -> sqlite3.Connection:
    """Open a connection for reading that can also roll back the unfinished transaction of a killed writer."""
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=rw", uri=True)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _stored_name(name: str | int) -> str:
    """Escape a file name, which may be any bytes, as UTF-8 for SQLite."""
    return str(name).encode("utf-8", "surrogatepass").decode("utf-8", "backslashreplace")


@contextmanager
def _readable_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # damaged text may not be UTF-8
        raise EigenmapError(f"the thumbnails in {path} cannot be read or written: {error}") from error
