"""Files: written atomically and durably, read without surprises."""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NoReturn
from uuid import uuid4

from eigenmap.core.errors import EigenmapError

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}
"""Errors of `flock` on file systems that know no locks."""


def _flag(name: str) -> int:
    """A flag of `os.open`, or nothing on a system that does not know it."""
    return int(getattr(os, name, 0))


NO_FOLLOW, NO_WAIT, FOLDER = _flag("O_NOFOLLOW"), _flag("O_NONBLOCK"), _flag("O_DIRECTORY")
_SYNCED = os.O_RDONLY if NO_FOLLOW else os.O_RDWR
"""How a file is opened to put it on disk: Windows wants it writable."""
PLAIN = _flag("O_CLOEXEC") | _flag("O_BINARY")
"""Not for processes that are started, and bytes as they are."""


class Lock:
    """An open file or folder that others are kept out of until it is closed, or this process ends.

    Forked processes share the lock: they do not end it, and do not keep it when this process is done with it.
    """

    def __init__(self, descriptor: int, wait: bool = True) -> None:
        """Lock a descriptor, which is closed if that fails; BlockingIOError if it is taken and we do not `wait`."""
        self.descriptor = descriptor
        self._owner = os.getpid()
        try:
            self.is_real = _flock(descriptor, wait)  # False where there are no locks, so that nobody is kept out
        except BaseException:
            os.close(descriptor)
            raise

    def close(self) -> None:
        """Let others have it."""
        try:
            if self.is_real and self._owner == os.getpid():  # or it would stay locked as long as a forked process lives
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        finally:
            os.close(self.descriptor)


def _flock(descriptor: int, wait: bool) -> bool:
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return False
    return True


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A hidden sibling to write to; it takes its place at `path`, durably, when the block ends without an error.

    with atomic_path(Path("model.json")) as partial:
        partial.write_text("{}")
    """
    partial, lock = _claimed(path)
    try:
        yield partial
        if _names(partial, lock.descriptor):
            _publish(lock.descriptor, partial, path)
        else:  # the writer made a new file under this name
            made = open_regular(partial, _SYNCED)
            try:
                _publish(made, partial, path)
            finally:
                os.close(made)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    finally:
        lock.close()


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name, durably, when the block ends without an error.

    Writers of the same name take turns, and what a killed one leaves behind, a hidden sibling, is reused by the next.
    On a file system without locks each has a sibling of its own.

    with atomic_write(Path("codes.npy")) as file:
        np.save(file, codes)
    """
    try:
        partial, lock = _claimed(path)
        try:
            with os.fdopen(lock.descriptor, "w+b", closefd=False) as file:
                yield file
            _publish(lock.descriptor, partial, path)
        except BaseException:
            with suppress(OSError):  # where nothing can be written, nothing can be removed
                partial.unlink()
            raise
        finally:
            lock.close()
    except OSError as error:
        raise EigenmapError(f"{path} cannot be written: {error.strerror or error}") from error


def _claimed(path: Path) -> tuple[Path, Lock]:
    """An empty, hidden sibling of a file, and a lock on it that keeps other writers out."""
    partial = path.with_name(f".{path.name}.partial")
    while True:
        descriptor, is_new = _opened_or_made(partial)
        lock = Lock(descriptor)
        try:
            if not lock.is_real:
                break
            if _names(partial, descriptor):
                os.ftruncate(descriptor, 0)
                return partial, lock
        except BaseException:
            lock.close()
            raise
        lock.close()  # its writer published or removed it while we waited
    lock.close()
    if is_new:
        partial.unlink(missing_ok=True)
    own = path.with_name(f".{path.name}.{uuid4().hex}.partial")
    return own, Lock(open_regular(own, os.O_RDWR | os.O_CREAT | os.O_EXCL))


def _opened_or_made(path: Path) -> tuple[int, bool]:
    """A descriptor of a file, and whether it is new."""
    while True:
        with suppress(FileExistsError):
            return open_regular(path, os.O_RDWR | os.O_CREAT | os.O_EXCL), True
        with suppress(FileNotFoundError):  # removed since
            return open_regular(path, os.O_RDWR), False


def _publish(descriptor: int, partial: Path, path: Path) -> None:
    os.fsync(descriptor)
    partial.replace(path)
    sync_directory(path.parent)


def _names(path: Path, descriptor: int) -> bool:
    """Whether the path leads to the open file."""
    try:
        return os.path.samestat(path.stat(follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def sync_directory(folder: Path) -> None:
    """Make the names in a folder durable: files that were created, renamed or removed."""
    if not FOLDER:
        return  # on Windows folders cannot be opened
    descriptor = os.open(folder, os.O_RDONLY | FOLDER | PLAIN)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, durably; one that is there already is left as it is."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_directory(made.parent)


def open_regular(path: Path, flags: int = os.O_RDONLY, *, follow: bool = False, folder: int | None = None) -> int:
    """A descriptor of a regular file; a FIFO, a device, a socket or a folder is an OSError, at once.

    A symbolic link is an error too, unless `follow`. With `folder`, an open folder's descriptor, `path` is relative
    to it.
    """
    flags |= NO_WAIT | PLAIN | (0 if follow else NO_FOLLOW)
    descriptor = os.open(path, flags, 0o666, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return descriptor


def read_regular(path: Path) -> bytes:
    """The content of a regular file, or of what a link leads to; a FIFO or a device is an OSError and is not read."""
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        return file.read()


def read_json(path: Path) -> Any:
    """The content of a JSON file; OSError if it cannot be read, ValueError if it is not JSON."""
    return parse_json(read_regular(path))


def parse_json(data: bytes | str, *, allow_nan: bool = False) -> Any:
    """The value of a JSON text; ValueError for anything else, also bottomless nesting, and NaN unless it is allowed.

    >>> parse_json("[1, 2]")
    [1, 2]
    """
    try:
        return json.loads(data, parse_constant=None if allow_nan else _refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def require_writable(path: Path) -> None:
    """Refuse a path at which no file can be made, by making one in the nearest folder there is and removing it."""
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise EigenmapError(f"{path} cannot be written: {nearest}: {error.strerror}.") from None


def json_bytes(content: object, indent: int | None = None) -> bytes:
    """The content of a JSON file; ASCII escapes keep any file name, also one that is not UTF-8."""
    return (json.dumps(content, indent=indent, allow_nan=False) + "\n").encode("ascii")


def write_json(path: Path, content: object) -> None:
    """Write a JSON file, whole or not at all."""
    with atomic_write(path) as file:
        file.write(json_bytes(content))
