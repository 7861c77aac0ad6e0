"""File access: atomic and durable writes, reads that cannot block."""

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

from eigenmap.core import renames
from eigenmap.core.errors import EigenmapError

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}
"""Errors of `flock` on file systems without locks."""
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
"""Errors of `link` on file systems without hard links."""


def _flag(name: str) -> int:
    """Return a flag of `os.open`, or 0 on a system without it."""
    return int(getattr(os, name, 0))


NO_FOLLOW, NO_WAIT, FOLDER = _flag("O_NOFOLLOW"), _flag("O_NONBLOCK"), _flag("O_DIRECTORY")
SYNCED = os.O_RDONLY if NO_FOLLOW else os.O_RDWR
"""Flags for opening a file to flush it to disk; Windows requires write access."""
PLAIN = _flag("O_CLOEXEC") | _flag("O_BINARY")
"""Flags for plain binary access that child processes do not inherit."""


class Lock:
    """An exclusive lock on an open file or folder, held until it is closed or this process ends.

    Forked processes share the lock: they do not release it, and do not hold it once this process has released it.
    """

    def __init__(self, descriptor: int, wait: bool = True) -> None:
        """Lock a descriptor, closing it on failure; raise BlockingIOError if it is taken and `wait` is false."""
        self.descriptor = descriptor
        self._owner = os.getpid()
        self._closed = False
        try:
            self.is_real = _flock(descriptor, wait)  # False without lock support: nobody is kept out
        except BaseException:
            os.close(descriptor)
            raise

    def close(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            if self.is_real and self._owner == os.getpid():  # else it would stay locked while a forked process lives
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
    """Yield a hidden sibling to write to; it replaces `path` atomically and durably if the block succeeds.

    with atomic_path(Path("model.json")) as partial:
        partial.write_text("{}")
    """
    partial, lock = _claimed(path)
    try:
        yield partial
        _publish(lock, partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    finally:
        lock.close()


@contextmanager
def atomic_write(path: Path, *, replace: bool = True) -> Iterator[IO[bytes]]:
    """Yield a file that appears under its name, atomically and durably, if the block succeeds.

    Without `replace`, a file that has the name by then is kept, and an error is raised.

    Writers of the same name take turns, and the hidden sibling that a killed one leaves behind is reused by the next.
    On a file system without locks, each writer has its own sibling.

    with atomic_write(Path("codes.npy")) as file:
        np.save(file, codes)
    """
    try:
        partial, lock = _claimed(path)
        try:
            if not replace and path.exists():  # written while we waited
                raise _taken(path)
            with os.fdopen(lock.descriptor, "w+b", closefd=False) as file:
                yield file
            _publish(lock, partial, path, replace)
        except BaseException:
            with suppress(OSError):  # where nothing can be written, nothing can be removed
                partial.unlink()
            raise
        finally:
            lock.close()
    except OSError as error:
        raise EigenmapError(f"{path} cannot be written: {error.strerror or error}") from error


def _claimed(path: Path) -> tuple[Path, Lock]:
    """Return an empty, hidden sibling of a file and a lock that keeps other writers out."""
    refuse_device(path)
    partial = path.with_name(f".{path.name}.partial")
    while True:
        descriptor, is_new = _opened_or_made(partial)
        lock = Lock(descriptor)
        try:
            if not lock.is_real:
                break
            if _names(partial, descriptor):
                if is_new or os.fstat(descriptor).st_nlink <= 1:
                    os.ftruncate(descriptor, 0)
                    return partial, lock
                partial.unlink()  # a second name of a published file, whose writer was killed in `move_new_file`
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
    """Open or create a file; return its descriptor and whether it is new."""
    while True:
        with suppress(FileExistsError):
            return open_regular(path, os.O_RDWR | os.O_CREAT | os.O_EXCL), True
        with suppress(FileNotFoundError):  # removed meanwhile
            return open_regular(path, os.O_RDWR), False


def _publish(lock: Lock, partial: Path, path: Path, replace: bool = True) -> None:
    if _names(partial, lock.descriptor):
        os.fsync(lock.descriptor)
    else:  # the writer created a new file under this name
        made = open_regular(partial, SYNCED)
        try:
            os.fsync(made)
        finally:
            os.close(made)
    if not lock.is_real:  # it keeps nobody out, and Windows does not rename an open file
        lock.close()
    if replace:
        partial.replace(path)
    else:
        try:
            move_new_file(partial, path)
        except FileExistsError:
            raise _taken(path) from None
    sync_directory(path.parent)


def _taken(path: Path) -> EigenmapError:
    return EigenmapError(f"{path} exists; choose another name, or use overwrite=True")


def move_new_file(source: Path, target: Path) -> None:
    """Rename a file without replacing anything; raise FileExistsError if `target` exists.

    Without renames that never replace, a kill may leave both names (`_claimed` expects it) and, without hard links
    either, an empty `target`.
    """
    if renames.renameat2(source, target, renames.NO_REPLACE):
        return
    if os.name == "nt":  # where a rename never replaces
        source.rename(target)
        return
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN))  # claims the name
        try:
            source.replace(target)
        except OSError:
            target.unlink()
            raise
    else:
        source.unlink()


def _names(path: Path, descriptor: int) -> bool:
    """Tell whether the path leads to the open file."""
    try:
        return os.path.samestat(path.stat(follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def sync_directory(folder: Path) -> None:
    """Make file creations, renames and removals in a folder durable."""
    if not FOLDER:
        return  # Windows cannot open folders
    descriptor = os.open(folder, os.O_RDONLY | FOLDER | PLAIN)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # unsupported by some network file systems
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents durably; do nothing if it exists."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_directory(made.parent)


def open_regular(path: Path, flags: int = os.O_RDONLY, *, follow: bool = False, folder: int | None = None) -> int:
    """Open a regular file; raise OSError at once for a FIFO, device, socket or folder.

    A symbolic link is an error too, unless `follow`. `folder` is the descriptor of an open folder to which `path` is
    relative.
    """
    flags |= NO_WAIT | PLAIN | (0 if follow else NO_FOLLOW)
    descriptor = os.open(path, flags, 0o666, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return descriptor


def read_regular(path: Path) -> bytes:
    """Read a regular file, following links; raise OSError for a FIFO or device without reading it."""
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        return file.read()


def read_json(path: Path) -> Any:
    """Parse a JSON file; raise OSError if it cannot be read, ValueError if it is not JSON."""
    return parse_json(read_regular(path))


def parse_json(data: bytes | str, *, allow_nan: bool = False) -> Any:
    """Parse JSON; raise ValueError for anything else, including excessive nesting and, unless allowed, NaN.

    >>> parse_json("[1, 2]")
    [1, 2]
    """
    try:
        return json.loads(data, parse_constant=None if allow_nan else _refuse_constant)
    except RecursionError:
        raise ValueError("it is too deeply nested") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def refuse_device(path: Path) -> None:
    """Refuse a device, pipe or socket as an output: its name would be taken by a file, if there is permission.

    `/dev/stdout` is a link that may lead to a file, but is not to be replaced either.
    """
    try:
        mode = path.stat().st_mode
    except OSError:  # there is nothing, or the reason is reported later
        return
    in_dev = path.absolute().parent == Path("/dev")
    if in_dev or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise EigenmapError(f"{path} is a device or a pipe, which output cannot replace; give a file name")


def require_writable(path: Path) -> None:
    """Refuse a path where no file can be created, by creating one in the nearest existing folder and removing it."""
    refuse_device(path)
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise EigenmapError(f"{path} cannot be written: {nearest}: {error.strerror}.") from None


def json_bytes(content: object, indent: int | None = None) -> bytes:
    """Serialise to JSON; ASCII escapes preserve any file name, even one that is not UTF-8."""
    return (json.dumps(content, indent=indent, allow_nan=False) + "\n").encode("ascii")


def write_json(path: Path, content: object) -> None:
    """Write a JSON file atomically."""
    with atomic_write(path) as file:
        file.write(json_bytes(content))
