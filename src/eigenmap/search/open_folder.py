"""Open folder: access to files through the folder's descriptor, even if its path changes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import finalize

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import FOLDER, PLAIN, Lock, open_regular
from eigenmap.core.folders import BusyFolderError


def require_folders(path: Path) -> None:
    """Refuse a system on which folders cannot be opened."""
    if not FOLDER:
        raise EigenmapError(f"{path} cannot be used: an index on disk needs a Unix-like system, such as Linux")


class OpenFolder:
    """Regular files of one folder, by name; symbolic links among them raise OSError and are never followed.

    If another folder replaces it at its path, this one is still read; a removed folder can be read as long as its files
    exist.

    folder = OpenFolder(Path("photos.index"))
    folder.read("index.json")
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        require_folders(path)
        self.descriptor = os.open(path, os.O_RDONLY | FOLDER | PLAIN)
        finalize(self, os.close, self.descriptor)

    def is_at(self, path: Path) -> bool | None:
        """Tell whether the path leads here; None if nothing is at the path."""
        try:
            return os.path.samestat(path.stat(), os.fstat(self.descriptor))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a file and return its descriptor."""
        return open_regular(Path(name), flags, folder=self.descriptor)

    def stat(self, name: str) -> os.stat_result:
        """Return size and times of a regular file."""
        found = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", name)
        return found

    def read(self, name: str, size: int = -1) -> bytes:
        """Read the first `size` bytes of a file, or all of it."""
        with os.fdopen(self.open(name), "rb") as stream:
            return stream.read(size)

    def names(self) -> list[str]:
        """Return the names of everything in the folder."""
        return sorted(os.listdir(self.descriptor))  # noqa: PTH208 - a descriptor is not a path

    def append(self, name: str, size: int, content: bytes | memoryview, durable: bool) -> None:
        """Write to a file starting at `size`, dropping anything beyond; raise if the file is shorter."""
        descriptor = self.open(name, os.O_WRONLY | os.O_CREAT)
        try:
            there = os.fstat(descriptor).st_size
            if there < size:
                raise OSError(errno.EIO, f"it is truncated: it has {there:,} of {size:,} bytes", name)
            if there > size:
                os.ftruncate(descriptor, size)
            left, place = memoryview(content).cast("B"), size
            while left:
                written = os.pwrite(descriptor, left[: 1 << 30], place)
                left, place = left[written:], place + written
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def truncate(self, name: str, size: int) -> None:
        """Truncate a file."""
        descriptor = self.open(name, os.O_WRONLY)
        try:
            os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)

    def replace(self, name: str, content: bytes, durable: bool = True) -> None:
        """Replace a file atomically; only one writer at a time may do this."""
        partial = f".{name}.partial"
        self.remove(partial)  # left by a killed writer; it may even be a link
        try:
            self.append(partial, 0, content, durable)
            self.publish(partial, name, durable)
        except BaseException:
            self.remove(partial)
            raise

    def publish(self, partial: str, name: str, durable: bool = True) -> None:
        """Rename a file to its final name."""
        os.replace(partial, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        if durable:
            self.sync()

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    @contextmanager
    def locked(self, wait: bool = True) -> Iterator[None]:
        """Keep others from changing the folder; without `wait`, raise `BusyFolderError` if it is in use."""
        try:
            lock = Lock(os.open(".", os.O_RDONLY | FOLDER | PLAIN, dir_fd=self.descriptor), wait)
        except BlockingIOError:
            raise BusyFolderError(f"another process is writing to {self.path}") from None
        try:
            yield
        finally:
            lock.close()

    def sync(self) -> None:
        """Make the names in the folder durable."""
        try:
            os.fsync(self.descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # unsupported by some network file systems
                raise
