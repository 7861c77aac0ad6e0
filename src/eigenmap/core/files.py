"""Files: written atomically and durably, read without surprises."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from eigenmap.core.errors import EigenmapError

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}
"""Errors of `flock` on file systems that know no locks."""


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A hidden sibling to write to; it takes its place at `path`, durably, when the block ends without an error.

    with whole(Path("model.json")) as partial:
        partial.write_text("{}")
    """
    partial = _partial_name(path)
    descriptor = _claimed(partial)
    try:
        yield partial
        if not _names(partial, descriptor):  # the writer made a new file under this name
            os.close(descriptor)
            descriptor = os.open(partial, os.O_RDONLY | os.O_NOFOLLOW)
        _publish(descriptor, partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    finally:
        os.close(descriptor)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name, durably, when the block ends without an error.

    Writers of the same name take turns. What a killed writer leaves behind, a hidden sibling, is reused by the next.

    with whole_file(Path("codes.npy")) as file:
        np.save(file, codes)
    """
    partial = _partial_name(path)
    try:
        descriptor = _claimed(partial)
        try:
            with os.fdopen(descriptor, "w+b", closefd=False) as file:
                yield file
            _publish(descriptor, partial, path)
        except BaseException:
            with suppress(OSError):  # where nothing can be written, nothing can be removed
                partial.unlink()
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise EigenmapError(f"{path} cannot be written: {error.strerror or error}") from error


def _partial_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def _claimed(partial: Path) -> int:
    """A descriptor of an empty file under this name, locked against other writers."""
    while True:
        descriptor = open_regular(partial, os.O_RDWR | os.O_CREAT)
        try:
            lock_descriptor(descriptor)
            if _names(partial, descriptor):
                os.ftruncate(descriptor, 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its writer published or removed it while we waited


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


def lock_descriptor(descriptor: int, wait: bool = True) -> None:
    """Lock an open file or folder until its descriptor is closed; BlockingIOError if it is taken and we do not wait."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def sync_directory(folder: Path) -> None:
    """Make the names in a folder durable: files that were created, renamed or removed."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
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
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags, 0o666, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return descriptor


def read_json(path: Path) -> Any:
    """The content of a JSON file; OSError if it cannot be read, ValueError if it is not JSON."""
    return parse_json(path.read_bytes())


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


def as_json(content: object, indent: int | None = None) -> bytes:
    """The content of a JSON file; ASCII escapes keep any file name, also one that is not UTF-8."""
    return (json.dumps(content, indent=indent, allow_nan=False) + "\n").encode("ascii")


def write_json(path: Path, content: object) -> None:
    """Write a JSON file, whole or not at all."""
    with whole_file(path) as file:
        file.write(as_json(content))
