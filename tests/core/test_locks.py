"""Locks and forked processes, file systems without locks, and other hosts."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from eigenmap.core import files, folders
from eigenmap.core.files import atomic_path, atomic_write
from eigenmap.core.folders import BusyFolderError, folder_lock, scratch_folder, staged_folder
from eigenmap.search.open_folder import OpenFolder
from eigenmap.training.metrics import MetricsFile


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that knows no locks."""

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr("fcntl.flock", flock)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def sleeping() -> int:
    """A forked process that has inherited every descriptor."""
    child = os.fork()
    if not child:
        time.sleep(300)
        os._exit(0)
    return child


def held(kind: str, path: Path) -> tuple[AbstractContextManager[object], str]:
    """Something that locks, and a pattern of the name of what it locks."""
    if kind == "folder":
        return folder_lock(path / "folder"), "folder"
    if kind == "open folder":
        return OpenFolder(path / "folder").locked(), "folder"
    if kind == "staging":
        return staged_folder(path / "new"), ".new.*"
    return (atomic_write if kind == "file" else atomic_path)(path / "file"), ".file.partial"


@pytest.mark.parametrize("replace", [True, False])
def test_where_there_are_no_locks_no_open_file_is_renamed(
    no_locks: None, replace: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows refuses that."""
    renames: list[str] = []

    def watched(name: str) -> None:
        rename = getattr(os, name)

        def renamed(source: str | Path, target: str | Path) -> None:
            paths = [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]
            assert str(source) not in paths
            renames.append(Path(target).name)
            rename(source, target)

        monkeypatch.setattr(os, name, renamed)

    watched("replace")
    watched("link")
    monkeypatch.setattr("eigenmap.core.renames.renameat2", lambda *given: False)
    with atomic_write(tmp_path / "a", replace=replace) as file:
        file.write(b"content")
    for write in (Path.touch, lambda path: (path.unlink(), path.touch())):
        with atomic_path(tmp_path / "b") as partial:
            write(partial)
    assert renames == ["a", "b", "b"] and names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("kind", ["folder", "open folder", "staging", "file", "whole"])
def test_a_forked_process_does_not_keep_a_lock(kind: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    lock, pattern = held(kind, tmp_path)
    with lock:
        other = os.open(next(tmp_path.glob(pattern)), os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        child = sleeping()
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(other)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_forked_process_does_not_end_a_lock(tmp_path: Path) -> None:
    with folder_lock(tmp_path):
        lock = folder_lock(tmp_path / "inner")
        (tmp_path / "inner").mkdir()
        with lock as inner:
            child = os.fork()
            if not child:
                inner.close()
                os._exit(0)
            os.waitpid(child, 0)
            with pytest.raises(BusyFolderError), folder_lock(tmp_path / "inner", blocking=False):
                pass


@pytest.mark.usefixtures("no_locks")
def test_running_work_is_left_alone_where_there_are_no_locks(tmp_path: Path) -> None:
    with staged_folder(tmp_path / "out", replace=True) as first:
        (first / "file").write_text("first")
        with staged_folder(tmp_path / "out") as second:
            (second / "file").write_text("second")
        assert (first / "file").read_text() == "first"
    assert (tmp_path / "out" / "file").read_text() == "first" and names(tmp_path) == ["out"]


def test_what_another_host_builds_is_left_alone_for_a_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "gethostname", lambda: "another")
    theirs = [folders.aside(tmp_path / "out", ending) for ending in ("new", "new", "old")]
    monkeypatch.undo()
    for folder in theirs:
        folder.mkdir()
        (folder / "file").touch()
    old = time.time() - 8 * 24 * 3600
    for path in (theirs[0] / "file", theirs[0], theirs[1]):
        os.utime(path, (old, old))  # the second has a file that is new
    (tmp_path / "out").mkdir()
    with staged_folder(tmp_path / "out", replace=True) as staging:
        (staging / "file").touch()
    assert names(tmp_path) == sorted([theirs[1].name, theirs[2].name, "out"])


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("left", [False, True])
def test_writers_of_one_name_do_not_mix_where_there_are_no_locks(tmp_path: Path, left: bool) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    if left:
        (folder / ".a.partial").write_bytes(b"of a host that has locks")
    start = threading.Barrier(8)

    def write(who: int) -> None:
        with atomic_write(folder / "a") as file:
            start.wait()
            for _ in range(100):
                file.write(b"%d" % who)
                file.flush()

    for _ in range(20):
        threads = [threading.Thread(target=write, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (folder / "a").read_bytes() in [b"%d" % who * 100 for who in range(8)]
    assert names(folder) == ([".a.partial"] if left else []) + ["a"]


def test_folders_where_they_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows opens no folders, has no flock, and flushes only files that are open for writing."""
    opened, flushed = os.open, os.fsync

    def open_file(path: str | Path, *given: int, **more: int) -> int:
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *given, **more)

    def flush(descriptor: int) -> None:
        assert fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        flushed(descriptor)

    monkeypatch.setattr(os, "open", open_file)
    monkeypatch.setattr(shutil, "_use_fd_functions", False)  # as there
    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(files, "fcntl", None)
    for module in (files, folders):
        monkeypatch.setattr(module, "FOLDER", 0)
        monkeypatch.setattr(module, "SYNCED", os.O_RDWR)
    for content in ("old", "new"):
        with staged_folder(tmp_path / "codes", replace=True) as staging:
            (staging / "part").write_text(content)
        assert (tmp_path / "codes" / "part").read_text() == content
    with scratch_folder(tmp_path / "codes"), folder_lock(tmp_path / "codes") as lock:
        assert not lock.is_real
    with pytest.raises(FileNotFoundError), folder_lock(tmp_path / "missing"):
        pass
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    metrics.write({"step": 1})
    metrics.sync()
    assert names(tmp_path) == ["codes", "metrics.jsonl"]
