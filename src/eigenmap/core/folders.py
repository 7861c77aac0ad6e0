"""Folder operations: locks, renames that never replace, exchanges, and atomic construction."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from socket import gethostname
from uuid import uuid4

from eigenmap.core import renames
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import (
    FOLDER,
    NO_FOLLOW,
    NO_WAIT,
    PLAIN,
    SYNCED,
    Lock,
    make_folder,
    move_new_file,
    sync_directory,
)

_HOST_DIGITS = 8
_ATTEMPTS, _PAUSE_S = 200, 0.01
_ABANDONED_S = 7 * 24 * 3600
"""Age in seconds after which leftovers of another host, or ones that cannot be locked, count as abandoned."""


class BusyFolderError(EigenmapError):
    """Raised when another process works in the folder."""


@contextmanager
def folder_lock(folder: Path, blocking: bool = True) -> Iterator[Lock]:
    """Keep other processes and threads out of a folder. The lock ends with this process.

    A folder that is replaced during the wait is locked again. Without `blocking`, a folder that is in use raises
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
            lock = Lock(_opened(folder), blocking)
        except BlockingIOError:
            raise BusyFolderError(
                f"another process is writing to {folder}: wait for it or choose another folder"
            ) from None
        try:
            if _is_at(folder, lock.descriptor):
                return lock
        except BaseException:
            lock.close()
            raise
        lock.close()


def _opened(folder: Path) -> int:
    """Open a folder to lock it; where folders cannot be opened, as on Windows, the null device, which locks nothing."""
    folder.stat()  # raises if there is none
    return os.open(folder if FOLDER else os.devnull, os.O_RDONLY | FOLDER | PLAIN)


def _is_at(folder: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(folder.stat(), os.fstat(descriptor)) or not FOLDER
    except FileNotFoundError:
        return False


def move_new(source: Path, target: Path) -> None:
    """Rename atomically and durably without replacing anything; raise FileExistsError if `target` exists."""
    if not source.is_dir():
        move_new_file(source, target)
    elif not renames.renameat2(source, target, renames.NO_REPLACE):
        target.mkdir()  # claims the name; a rename replaces only an empty folder
        try:
            source.rename(target)
        except OSError as error:
            with suppress(OSError):
                target.rmdir()
            if error.errno == errno.ENOTEMPTY:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
            raise
    _sync_parents(source, target)


def exchange(source: Path, target: Path) -> None:
    """Swap two paths durably; where the file system supports it, `target` always exists.

    Elsewhere it takes three renames; after a kill between them, `recover(target)` restores the old one.
    """
    if not renames.renameat2(source, target, renames.EXCHANGE):
        retired = aside(target, "old")
        target.rename(retired)
        try:
            _rename_patiently(source, target)
        except OSError:
            retired.rename(target)
            raise
        retired.rename(source)
    _sync_parents(source, target)


def _rename_patiently(source: Path, target: Path) -> None:
    """Rename a folder, waiting for a process that took the free name until it notices the exchange (`_take_name`)."""
    for _ in range(_ATTEMPTS):
        try:
            source.rename(target)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        time.sleep(_PAUSE_S)
    source.rename(target)


def recover(target: Path) -> None:
    """Restore a folder or file that a killed `exchange` left aside, if nothing is at `target`.

    Waits for a running exchange, which holds the folder's lock.
    """
    for retired in [] if target.exists() else _siblings(target, "old"):
        with suppress(FileExistsError, FileNotFoundError), folder_lock(retired) if retired.is_dir() else nullcontext():
            move_new(retired, target)
            return


@contextmanager
def staged_folder(
    path: Path, *, replace: bool = False, check: Callable[[Path], object] | None = None, held: bool = False
) -> Iterator[Path]:
    """Yield an empty, hidden sibling to fill; it becomes `path` atomically and durably if the block succeeds.

    If something is at `path` by then, an error is raised, or, with `replace`, it is exchanged for the new folder under
    its lock and removed. `check` is called with the folder to be replaced just before, and may raise to keep it. `held`
    means that the caller has already locked that folder. An empty folder counts as absent, since a killed process may
    have left it. Leftovers of killed processes beside `path` are removed.

    with staged_folder(Path("codes"), replace=True) as staging:
        (staging / "part-0.npy").write_bytes(b"...")
    """
    target = path.resolve()
    try:
        make_folder(target.parent)
        recover(target)
        remove_leftovers(target)
        known = frozenset(_siblings(target, "old"))  # kept for their hosts; newer ones belong to exchanges under way
        staging, lock = _new_staging(target)
    except OSError as error:
        raise _unwritable(target, error) from error
    try:
        yield staging
        sync_tree(staging)
        _take_place(staging, target, known, replace, check, held)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)  # after an exchange this is the old folder
        lock.close()


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """Yield an empty, hidden folder beside `path` and remove it after the block, with leftovers of killed processes."""
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


def _take_place(
    staging: Path,
    target: Path,
    known: frozenset[Path],
    replace: bool,
    check: Callable[[Path], object] | None,
    held: bool,
) -> None:
    while True:
        try:
            _take_name(staging, target, known)
            return
        except FileExistsError:
            recover(target)  # waits for an exchange under way, after which the name is taken
            if _removed_empty(target):
                continue
            if not replace:
                raise EigenmapError(f"{target} exists; choose another name, or use overwrite=True") from None
        lock = nullcontext() if held else folder_lock(target)
        with suppress(FileNotFoundError), lock:  # removed meanwhile: try again
            if check is not None:
                check(target)
            exchange(staging, target)
            return


def _take_name(staging: Path, target: Path, known: frozenset[Path]) -> None:
    """Move a folder to a free name; raise FileExistsError if the name is taken.

    A name is also taken between the renames of an exchange by another process. In that gap, `target` does not exist,
    but the old folder is beside it. Those in `known` were there before.
    """
    ours = staging.stat()
    move_new(staging, target)
    if not known.issuperset(_siblings(target, "old")) and os.path.samestat(target.stat(), ours):
        target.rename(staging)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


def is_empty_folder(path: Path) -> bool:
    """Tell whether the path is an empty folder."""
    try:
        return path.is_dir() and next(path.iterdir(), None) is None
    except OSError:
        return False


def require_free(folder: Path, force: bool) -> None:
    """Refuse a file, and a folder that contains something unless `force`."""
    if folder.exists() and not folder.is_dir():
        raise EigenmapError(f"{folder} is a file; choose a folder for the output.")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise EigenmapError(f"{folder} exists and is not empty: choose another folder, or use force=True.")


def _removed_empty(folder: Path) -> bool:
    """Remove a folder if it is empty and not in use."""
    try:
        with folder_lock(folder, blocking=False):
            folder.rmdir()
    except (OSError, BusyFolderError):
        return False
    return True


def sync_tree(folder: Path) -> None:
    """Flush every file and name below a folder to disk."""
    for parent, _, files in os.walk(folder):
        for file in (Path(parent) / name for name in files):
            if not stat.S_ISREG(file.lstat().st_mode):
                continue  # a link or FIFO consists of its name only
            descriptor = os.open(file, SYNCED | NO_FOLLOW | NO_WAIT | PLAIN)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_directory(Path(parent))


def aside(target: Path, ending: str) -> Path:
    """Return a new hidden name beside `target` that includes the host name."""
    return target.with_name(f".{target.name}.{_host()}{uuid4().hex[_HOST_DIGITS:]}.{ending}")


def _host() -> str:
    return sha256(os.fsencode(gethostname())).hexdigest()[:_HOST_DIGITS]


def _new_staging(target: Path) -> tuple[Path, Lock]:
    """Create a folder beside `target`, with a lock that marks it as in use."""
    while True:
        staging = aside(target, "new")
        staging.mkdir()
        with suppress(FileNotFoundError):  # mistaken for a leftover before it was locked
            lock = Lock(_opened(staging))
            if _is_at(staging, lock.descriptor):
                return staging, lock
            lock.close()


def remove_leftovers(target: Path) -> None:
    """Remove what killed processes left beside `target`: staging folders without a holder, and replaced folders.

    Locks may not reach other hosts, and some file systems have none: leftovers that another host made, or that cannot
    be locked, are kept for a week.
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
    """Tell whether nothing in a leftover has changed for a long time."""
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
