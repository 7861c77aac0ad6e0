"""Folders: locked, renamed without replacing, exchanged, and built aside until they are complete."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from socket import gethostname
from uuid import uuid4

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import FOLDER, NO_FOLLOW, NO_WAIT, PLAIN, Lock, make_folder, sync_directory

_NO_REPLACE, _EXCHANGE = 1, 2
"""Flags of Linux's renameat2."""
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}
_AT_FDCWD = -100
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_HOST_DIGITS = 8
_ABANDONED_S = 7 * 24 * 3600
"""The age at which what another host has left, or what cannot be locked, is no longer taken for running work."""


class BusyFolderError(EigenmapError):
    """Another process works in the folder."""


@contextmanager
def folder_lock(folder: Path, blocking: bool = True) -> Iterator[Lock]:
    """Keep other processes and threads out of a folder. The lock ends with this process.

    A folder that is replaced while we wait is locked anew. Without `blocking`, a folder that is taken is a
    `BusyFolderError`.

    with folder_lock(Path("photos.index")):
        ...
    """
    lock = _locked(folder, blocking)
    try:
        yield lock
    finally:
        lock.close()


def _locked(folder: Path, blocking: bool) -> Lock:
    while True:
        try:
            lock = Lock(os.open(folder, os.O_RDONLY | FOLDER | PLAIN), blocking)
        except BlockingIOError:
            raise BusyFolderError(
                f"another process is writing to {folder}: wait for it, or choose another place"
            ) from None
        try:
            if _is_at(folder, lock.descriptor):
                return lock
        except BaseException:
            lock.close()
            raise
        lock.close()


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
            _move_new_file(source, target)
    _sync_parents(source, target)


def _move_new_file(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN))  # claims the name
        source.replace(target)
    else:
        source.unlink()


def exchange(source: Path, target: Path) -> None:
    """Swap two paths durably; at no moment is there nothing at `target`, where the file system can do that.

    Elsewhere three renames do it; after a kill between them `recover(target)` puts the old one back.
    """
    if not _renameat2(source, target, _EXCHANGE):
        retired = aside(target, "old")
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
    says that the caller has locked that folder. An empty folder counts as nothing: a killed process may have left it.
    What killed processes left beside `path` is removed.

    with staged_folder(Path("codes"), replace=True) as staging:
        (staging / "part-0.npy").write_bytes(b"...")
    """
    target = path.resolve()
    try:
        make_folder(target.parent)
        recover(target)
        remove_leftovers(target)
        staging, lock = _new_staging(target)
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
        lock.close()


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """An empty, hidden folder beside `path` for the time of the block; what a killed process left there is removed."""
    target = path.absolute()
    try:
        make_folder(target.parent)
        remove_leftovers(target)
        scratch, lock = _new_staging(target)
    except OSError as error:
        raise _unwritable(target, error) from error
    try:
        yield scratch
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        lock.close()


def _take_place(staging: Path, target: Path, replace: bool, check: Callable[[Path], object] | None, held: bool) -> None:
    while True:
        try:
            move_new(staging, target)
            return
        except FileExistsError:
            if _removed_empty(target):
                continue
            if not replace:
                raise EigenmapError(f"{target} exists already; choose another place or ask to overwrite it") from None
        lock = nullcontext() if held else folder_lock(target)
        with suppress(FileNotFoundError), lock:  # removed meanwhile: try again
            if check is not None:
                check(target)
            exchange(staging, target)
            return


def is_empty_folder(path: Path) -> bool:
    """Whether there is a folder with nothing in it."""
    try:
        return path.is_dir() and next(path.iterdir(), None) is None
    except OSError:
        return False


def _removed_empty(folder: Path) -> bool:
    """Remove a folder if it is empty and nobody works in it."""
    try:
        with folder_lock(folder, blocking=False):
            folder.rmdir()
    except (OSError, BusyFolderError):
        return False
    return True


def sync_tree(folder: Path) -> None:
    """Put every file below a folder, and every name, on disk."""
    for parent, _, files in os.walk(folder):
        for file in (Path(parent) / name for name in files):
            if not stat.S_ISREG(file.lstat().st_mode):
                continue  # a link or a FIFO is no more than its name
            descriptor = os.open(file, os.O_RDONLY | NO_FOLLOW | NO_WAIT | PLAIN)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_directory(Path(parent))


def aside(target: Path, ending: str) -> Path:
    """A new hidden name beside `target`, which says on which host it was made."""
    return target.with_name(f".{target.name}.{_host()}{uuid4().hex[_HOST_DIGITS:]}.{ending}")


def _host() -> str:
    return sha256(os.fsencode(gethostname())).hexdigest()[:_HOST_DIGITS]


def _new_staging(target: Path) -> tuple[Path, Lock]:
    """A new folder beside `target` with a lock that says it is in use."""
    while True:
        staging = aside(target, "new")
        staging.mkdir()
        with suppress(FileNotFoundError):  # taken for a leftover before it was locked
            lock = Lock(os.open(staging, os.O_RDONLY | FOLDER | PLAIN))
            if _is_at(staging, lock.descriptor):
                return staging, lock
            lock.close()


def remove_leftovers(target: Path) -> None:
    """Remove what killed processes left beside `target`: stagings that nobody holds, and what was replaced.

    Locks may not reach other hosts, and some file systems know none: what another host made, or what cannot be locked,
    is left alone for a week.
    """
    leftovers = [*_siblings(target, "new"), *(_siblings(target, "old") if target.exists() else [])]
    for leftover in leftovers:
        with suppress(OSError, BusyFolderError):
            is_ours = leftover.name.startswith(f".{target.name}.{_host()}")
            if leftover.is_symlink() or not leftover.is_dir():
                if is_ours or _is_abandoned(leftover):
                    leftover.unlink()
                continue
            with folder_lock(leftover, blocking=False) as lock:
                if (is_ours and lock.is_real) or _is_abandoned(leftover):
                    shutil.rmtree(leftover, ignore_errors=True)


def _is_abandoned(leftover: Path) -> bool:
    """Whether nothing in it has changed for long."""
    there = [leftover, *leftover.rglob("*")] if leftover.is_dir() and not leftover.is_symlink() else [leftover]
    return time.time() - max(path.lstat().st_mtime for path in there) > _ABANDONED_S


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
