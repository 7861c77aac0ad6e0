"""Folders appear complete, replace nothing unasked, and survive the death of whoever builds them."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from eigenmap.core import folders, renames
from eigenmap.core.errors import EigenmapError
from eigenmap.core.folders import BusyFolderError, exchange, folder_lock, move_new, recover, staged_folder


@pytest.fixture(params=["renameat2", "plain renames"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of renaming: the system's own, and what is left where a file system knows none."""
    if request.param == "plain renames":
        monkeypatch.setattr(renames, "renameat2", lambda *_: False)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def folder(path: Path, content: str) -> Path:
    path.mkdir()
    (path / "file").write_text(content)
    return path


@pytest.mark.usefixtures("system")
def test_a_move_never_replaces(tmp_path: Path) -> None:
    source, target = folder(tmp_path / "new", "new"), folder(tmp_path / "old", "old")
    with pytest.raises(FileExistsError):
        move_new(source, target)
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    with pytest.raises(FileExistsError):
        move_new(tmp_path / "a", tmp_path / "b")
    assert (target / "file").read_text() == "old" and (tmp_path / "b").read_text() == "b"
    move_new(source, tmp_path / "free")
    move_new(tmp_path / "a", tmp_path / "c")
    assert names(tmp_path) == ["b", "c", "free", "old"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileExistsError):
        move_new(target, tmp_path / "empty")


@pytest.mark.usefixtures("system")
def test_an_exchange_swaps(tmp_path: Path) -> None:
    exchange(folder(tmp_path / "a", "a"), folder(tmp_path / "b", "b"))
    assert (tmp_path / "a" / "file").read_text() == "b" and (tmp_path / "b" / "file").read_text() == "a"
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.usefixtures("system")
def test_a_folder_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match="exists"), staged_folder(tmp_path / "out") as staging:
        (staging / "file").write_text("ours")
        folder(tmp_path / "out", "theirs")
    assert (tmp_path / "out" / "file").read_text() == "theirs" and names(tmp_path) == ["out"]


@pytest.mark.usefixtures("system")
def test_a_folder_is_replaced_only_if_the_check_allows_it(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "old")

    def refuse(path: Path) -> None:
        raise EigenmapError(f"{path} is not ours")

    with pytest.raises(EigenmapError, match="not ours"), staged_folder(out, replace=True, check=refuse) as staging:
        (staging / "file").write_text("new")
    assert (out / "file").read_text() == "old"
    with staged_folder(out, replace=True) as staging:
        (staging / "file").write_text("new")
        assert (out / "file").read_text() == "old"
    assert (out / "file").read_text() == "new" and names(tmp_path) == ["out"]


def test_of_many_that_create_one_folder_exactly_one_succeeds(tmp_path: Path) -> None:
    for round in range(20):
        out, made, refused = tmp_path / str(round), [], []
        start = threading.Barrier(8)

        def create(who: int, out: Path = out, made: list = made, refused: list = refused, start=start) -> None:
            start.wait()
            try:
                with staged_folder(out) as staging:
                    (staging / "file").write_text(str(who))
                made.append(who)
            except EigenmapError:
                refused.append(who)

        threads = [threading.Thread(target=create, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 1 and len(refused) == 7
        assert (out / "file").read_text() == str(made[0])
    assert len(names(tmp_path)) == 20


_KILLED = """
import os, signal, sys
from pathlib import Path
from eigenmap.core.folders import staged_folder
with staged_folder(Path(sys.argv[1])) as staging:
    (staging / "file").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_leaves_is_removed_and_what_a_living_one_builds_is_not(tmp_path: Path) -> None:
    out = tmp_path / "out"
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(out)], check=False)
    assert killed.returncode == -signal.SIGKILL and len(names(tmp_path)) == 1
    with staged_folder(out) as first:
        (first / "file").write_text("first")
        assert len(names(tmp_path)) == 1  # the leftover is gone
        with pytest.raises(EigenmapError), staged_folder(out) as second:
            (second / "file").write_text("second")
            assert len(names(tmp_path)) == 2
            raise EigenmapError("stop")
        assert first.is_dir()
    assert (out / "file").read_text() == "first" and names(tmp_path) == ["out"]


def test_a_swap_that_was_cut_off_is_undone(tmp_path: Path) -> None:
    folder(tmp_path / f".out.{'0' * 32}.old", "old")
    recover(tmp_path / "out")
    assert (tmp_path / "out" / "file").read_text() == "old"
    folder(tmp_path / f".out.{'1' * 32}.old", "older")
    recover(tmp_path / "out")
    assert (tmp_path / "out" / "file").read_text() == "old"


@pytest.mark.parametrize("supported", [0, 1], ids=["plain renames", "no exchange"])
@pytest.mark.parametrize("replace", [False, True])
def test_the_gap_of_an_exchange_in_two_renames_is_no_free_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, supported: int, replace: bool
) -> None:
    """Of old a creation succeeded over a folder that existed, and the exchange failed."""
    real = renames.renameat2
    monkeypatch.setattr(renames, "renameat2", lambda *given: given[2] == supported and real(*given))
    out, new = folder(tmp_path / "out", "old"), folder(tmp_path / "new", "new")
    in_gap, errors = threading.Event(), []
    patient = folders._rename_patiently

    def slowly(source: Path, target: Path) -> None:
        in_gap.set()
        taken.wait(0.3)  # long enough for the creation to take the name; a slower one finds it taken
        patient(source, target)

    def swap() -> None:
        try:
            with folder_lock(out):
                exchange(new, out)
        except OSError as error:
            errors.append(error)

    swapping, taken = threading.Thread(target=swap), threading.Event()
    wanted = pytest.raises(EigenmapError, match="exists") if not replace else nullcontext()
    with wanted, staged_folder(out, replace=replace) as staging:
        (staging / "file").write_text("created")
        monkeypatch.setattr(folders, "_rename_patiently", slowly)
        swapping.start()
        in_gap.wait()
        monkeypatch.setattr(folders, "_rename_patiently", patient)
    swapping.join()
    assert errors == [] and (out / "file").read_text() == ("created" if replace else "new")
    assert names(tmp_path) == ["new", "out"] and (new / "file").read_text() == "old"


def test_a_swap_that_is_cut_off_while_another_folder_is_made_is_undone(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "old")
    with pytest.raises(EigenmapError, match="exists"), staged_folder(out) as staging:
        (staging / "file").write_text("created")
        out.rename(folders.aside(out, "old"))
    assert (out / "file").read_text() == "old" and names(tmp_path) == ["out"]


def test_a_locked_folder_is_waited_for_or_refused(tmp_path: Path) -> None:
    refused = pytest.raises(BusyFolderError, match="another process")
    with folder_lock(tmp_path), refused, folder_lock(tmp_path, blocking=False):
        pass
    with folder_lock(tmp_path, blocking=False):
        pass


def test_a_lock_follows_a_folder_that_is_replaced_while_it_waits(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "old")
    seen: list[str] = []

    def wait() -> None:
        with folder_lock(out):
            seen.append((out / "file").read_text())

    with folder_lock(out):
        waiting = threading.Thread(target=wait)
        waiting.start()
        exchange(folder(tmp_path / "new", "new"), out)
    waiting.join()
    assert seen == ["new"]


def test_an_empty_folder_that_a_killed_move_left_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renames, "renameat2", lambda *_: False)
    for replace in (False, True):
        out = tmp_path / f"out {replace}"
        out.mkdir()
        with staged_folder(out, replace=replace) as staging:
            (staging / "file").write_text("new")
        assert (out / "file").read_text() == "new"
    (tmp_path / "busy").mkdir()
    with (
        folder_lock(tmp_path / "busy"),
        pytest.raises(EigenmapError, match="exists"),
        staged_folder(tmp_path / "busy"),
    ):
        pass


def test_a_file_moves_where_there_are_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(renames, "renameat2", lambda *_: False)
    monkeypatch.setattr(os, "link", link)
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    with pytest.raises(FileExistsError):
        move_new(tmp_path / "a", tmp_path / "b")
    move_new(tmp_path / "a", tmp_path / "c")
    assert names(tmp_path) == ["b", "c"] and (tmp_path / "c").read_text() == "a"


def test_links_and_fifos_in_a_folder_are_no_obstacle(tmp_path: Path) -> None:
    with staged_folder(tmp_path / "out") as staging:
        (staging / "file").write_text("x")
        (staging / "link").symlink_to("file")
        (staging / "nowhere").symlink_to("gone")
        os.mkfifo(staging / "fifo")
    assert names(tmp_path / "out") == ["fifo", "file", "link", "nowhere"]
