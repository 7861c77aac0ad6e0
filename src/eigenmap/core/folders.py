"""Folders: locked, renamed without replacing, exchanged, and built aside until they are complete."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from uuid import uuid4

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import lock_descriptor, make_folder, sync_directory

_NO_REPLACE, _EXCHANGE = 1, 2
"""Flags of Linux's renameat2."""
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}
_AT_FDCWD = -100


class BusyFolderError(EigenmapError):
    """Another process works in the folder."""


@contextmanager
def folder_lock(folder: Path, blocking: bool = True) -> Iterator[int]:
    """Keep other processes and threads out of a folder; yields its descriptor. The lock ends with this process.

    A folder that is replaced while we wait is locked anew. Without `blocking`, a folder that is taken is a
    `BusyFolderError`.

    with folder_lock(Path("photos.index")):
        ...
    """
    descriptor = _locked_descriptor(folder, blocking)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _locked_descriptor(folder: Path, blocking: bool) -> int:
    while True:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            lock_descriptor(descriptor, wait=blocking)
            if _is_at(folder, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise BusyFolderError(
                f"another process is writing to {folder}: wait for it, or choose another place"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_at(folder: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(folder.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def move_new(source: Path, target: Path) -> None:
    """Rename atomically and durably, never replacing anything: FileExistsError if there is something at `target`."""
    if not _renameat2(source, target, _NO_REPLACE):
        if source.is_dir():
            target.mkdir()  # claims the name; a rename replaces an empty folder, and no other
            try:
                source.rename(target)
            except OSError as error:
                with suppress(OSError):
                    target.rmdir()
                if error.errno == errno.ENOTEMPTY:
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
                raise
        else:
            os.link(source, target)
            source.unlink()
    _sync_parents(source, target)


def exchange(source: Path, target: Path) -> None:
    """Swap two paths durably; at no moment is there nothing at `target`, where the file system can do that.

    Elsewhere three renames do it; after a kill between them `recover(target)` puts the old one back.
    """
    if not _renameat2(source, target, _EXCHANGE):
        retired = target.with_name(f".{target.name}.{uuid4().hex}.old")
        target.rename(retired)
        try:
            source.rename(target)
        except OSError:
            retired.rename(target)
            raise
        retired.rename(source)
    _sync_parents(source, target)


def recover(target: Path) -> None:
    """Put an old folder or file back that a killed `exchange` left aside, if there is nothing at `target`.

    Waits for an exchange that is running: whoever exchanges a folder has locked it.
    """
    for retired in [] if target.exists() else _siblings(target, "old"):
        with suppress(FileExistsError, FileNotFoundError), folder_lock(retired) if retired.is_dir() else nullcontext():
            move_new(retired, target)
            return


@contextmanager
def staged_folder(
    path: Path, *, replace: bool = False, check: Callable[[Path], object] | None = None, held: bool = False
) -> Iterator[Path]:
    """An empty, hidden sibling to fill; it takes its place at `path`, durably, when the block ends without an error.

    Something that is at `path` by then is an error, or with `replace` is exchanged for the new folder while its lock
    is held, and removed. `check` is called with the folder to be replaced, just before, and raises to keep it. `held`
    says that the caller has locked that folder. What killed processes left beside `path` is removed.

    with staged_folder(Path("codes"), replace=True) as staging:
        (staging / "part-0.npy").write_bytes(b"...")
    """
    target = path.resolve()
    try:
        make_folder(target.parent)
        recover(target)
        remove_leftovers(target)
        staging, descriptor = _new_staging(target)
    except OSError as error:
        raise _unwritable(target, error) from error
    try:
        yield staging
        sync_tree(staging)
        _take_place(staging, target, replace, check, held)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)  # the old folder, after an exchange
        os.close(descriptor)


def _take_place(staging: Path, target: Path, replace: bool, check: Callable[[Path], object] | None, held: bool) -> None:
    while True:
        try:
            move_new(staging, target)
            return
        except FileExistsError:
            if not replace:
                raise EigenmapError(f"{target} exists already; choose another place or ask to overwrite it") from None
        lock = nullcontext() if held else folder_lock(target)
        with suppress(FileNotFoundError), lock:  # removed meanwhile: try again
            if check is not None:
                check(target)
            exchange(staging, target)
            return


def sync_tree(folder: Path) -> None:
    """Put every file below a folder, and every name, on disk."""
    for parent, _, files in os.walk(folder):
        for name in files:
            descriptor = os.open(Path(parent) / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_directory(Path(parent))


def _new_staging(target: Path) -> tuple[Path, int]:
    """A new folder beside `target` with a lock that says it is in use."""
    while True:
        staging = target.with_name(f".{target.name}.{uuid4().hex}.new")
        staging.mkdir()
        with suppress(FileNotFoundError):  # taken for a leftover before it was locked
            descriptor = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            lock_descriptor(descriptor)
            if _is_at(staging, descriptor):
                return staging, descriptor
            os.close(descriptor)


def remove_leftovers(target: Path) -> None:
    """Remove what killed processes left beside `target`: stagings that nobody holds, and what was replaced."""
    leftovers = [*_siblings(target, "new"), *(_siblings(target, "old") if target.exists() else [])]
    for leftover in leftovers:
        if not leftover.is_dir():
            leftover.unlink(missing_ok=True)
            continue
        with suppress(OSError, BusyFolderError), folder_lock(leftover, blocking=False):
            shutil.rmtree(leftover, ignore_errors=True)


def _siblings(target: Path, ending: str) -> list[Path]:
    prefix, suffix = f".{target.name}.", f".{ending}"
    found = []
    for entry in os.scandir(target.parent):
        middle = entry.name.removeprefix(prefix).removesuffix(suffix)
        if entry.name == f"{prefix}{middle}{suffix}" and len(middle) == 32:
            found.append(Path(entry.path))
    return sorted(found)


def _sync_parents(*paths: Path) -> None:
    for parent in {path.parent for path in paths}:
        sync_directory(parent)


def _unwritable(target: Path, error: OSError) -> EigenmapError:
    return EigenmapError(f"{target} cannot be written: {error.strerror or error}")


def _renameat2(source: Path, target: Path, flags: int) -> bool:
    """Rename with flags; False where the system or the file system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), ctypes.c_uint(flags)) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(source), None, str(target))
