"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from eigenmap.core import files, renames
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import (
    atomic_path,
    atomic_write,
    make_folder,
    open_regular,
    parse_json,
    read_json,
    refuse_device,
    require_writable,
)
from eigenmap.description import read_description


def test_a_file_takes_its_place_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with atomic_path(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_fails_leaves_nothing_but_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(error), atomic_path(path) as partial:
        partial.write_text("half of")
        raise error
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_place_is_tried_without_leaving_a_trace(tmp_path: Path) -> None:
    require_writable(tmp_path / "new" / "file")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(EigenmapError, match=r"below.*written"):
        require_writable(tmp_path / "file" / "below")


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), atomic_write(tmp_path / "a") as file:
        file.write(b"half")
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    with pytest.raises(EigenmapError, match=r"gone/a .*written"), atomic_write(tmp_path / "gone" / "a"):
        pass


def test_writers_of_one_name_take_turns_and_reuse_what_a_killed_one_left(tmp_path: Path) -> None:
    path = tmp_path / "a"
    (tmp_path / ".a.partial").write_bytes(b"left behind by a killed process, longer than what follows")

    def write(who: int) -> None:
        with atomic_write(path) as file:
            for _ in range(100):
                file.write(b"%d" % who)

    threads = [threading.Thread(target=write, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in [b"%d" % who * 100 for who in range(8)] and list(tmp_path.iterdir()) == [path]


def test_a_writer_may_replace_the_file_it_was_given(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "a") as partial:
        (tmp_path / "b").write_text("other")
        (tmp_path / "b").replace(partial)
    assert (tmp_path / "a").read_text() == "other"


def test_folders_are_made_with_those_above_them_and_all_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync_directory", synced.append)
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir() and sorted(synced) == [tmp_path, tmp_path / "a"]
    make_folder(tmp_path / "a" / "b")
    assert len(synced) == 2
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        make_folder(tmp_path / "file")


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "to fifo").symlink_to("fifo")
    for name, follow in [("fifo", False), ("to fifo", True), ("link", False), ("", True)]:
        with pytest.raises(OSError):
            open_regular(tmp_path / name, follow=follow)
    for name, follow in [("file", False), ("link", True)]:
        os.close(open_regular(tmp_path / name, follow=follow))


def test_a_device_or_a_pipe_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for path in (pipe, tmp_path / "link", Path(os.devnull)):
        for write in (require_writable, lambda path: atomic_write(path).__enter__()):
            with pytest.raises(EigenmapError, match=f"{path} is a device or a pipe"):
                write(path)
    assert pipe.is_fifo() and {each.name for each in tmp_path.iterdir()} == {"link", "pipe"}
    (tmp_path / "file").write_text("old")
    refuse_device(tmp_path / "file")
    refuse_device(tmp_path / "none")
    refuse_device(tmp_path)


def test_a_file_in_the_current_folder_is_no_device_where_the_null_device_has_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "devnull", "nul")  # as on Windows
    monkeypatch.chdir(tmp_path)
    Path("codes.npy").write_text("old")
    require_writable(Path("codes.npy"))
    with atomic_write(Path("codes.npy")) as file:
        file.write(b"new")
    assert Path("codes.npy").read_text() == "new"


@pytest.mark.skipif(not Path("/dev/stdout").is_symlink(), reason="there is no /dev/stdout")
def test_the_link_to_standard_output_is_never_replaced(tmp_path: Path) -> None:
    program = "from pathlib import Path; from eigenmap.core.files import *; refuse_device(Path('/dev/stdout'))"
    with (tmp_path / "out").open("w") as out:
        ended = subprocess.run([sys.executable, "-c", program], stdout=out, stderr=subprocess.PIPE, check=False)
    assert ended.returncode == 1 and b"/dev/stdout is a device or a pipe" in ended.stderr


def test_a_partial_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".a.partial").symlink_to("mine")
    with pytest.raises(EigenmapError, match=r"/a .*written"), atomic_write(tmp_path / "a") as file:
        file.write(b"theirs")
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "NaN", "[-Infinity]", "9" * 10_000, "", b"\xff"])
def test_what_is_not_json_is_a_value_error(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(text)
    path = tmp_path / "file"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError):
        read_json(path)


def test_a_writer_that_leaves_no_regular_file_is_an_error_and_nothing_is_closed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[OSError] = []
    close = os.close

    def closing(descriptor: int) -> None:
        try:
            close(descriptor)
        except OSError as error:
            closed.append(error)

    monkeypatch.setattr(os, "close", closing)
    (tmp_path / "mine").touch()
    for spoil in (lambda path: None, os.mkfifo, lambda path: path.symlink_to(tmp_path / "mine")):
        with pytest.raises(OSError), atomic_path(tmp_path / "a") as partial:
            partial.unlink()
            spoil(partial)
        assert not closed and list(tmp_path.iterdir()) == [tmp_path / "mine"]


@pytest.mark.parametrize("through_link", [False, True])
def test_a_fifo_is_not_read_as_json(tmp_path: Path, through_link: bool) -> None:
    os.mkfifo(tmp_path / "model.json")
    path = tmp_path / "model.json"
    if through_link:
        path = tmp_path / "link"
        path.symlink_to("model.json")
    with pytest.raises(OSError, match="regular file"):
        read_json(path)
    with pytest.raises(EigenmapError, match="regular file"):
        read_description(tmp_path)


WITHOUT = """
import random, tempfile, os, sys  # which know better what this system can do
import torch
sys.modules["fcntl"] = None
for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "O_CLOEXEC", "register_at_fork"):
    delattr(os, name)
"""


@pytest.mark.slow
def test_the_command_line_and_files_need_no_unix(tmp_path: Path) -> None:
    script = f"""{WITHOUT}
from pathlib import Path
import numpy as np
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_write
from eigenmap.search import CodeIndex
with atomic_write(Path(sys.argv[1]) / "file") as file:
    file.write(b"whole")
try:
    CodeIndex(4, where=Path(sys.argv[1]) / "index")
except EigenmapError as error:
    print(error)
import eigenmap.cli
sys.argv = ["eigenmap", "--help"]
eigenmap.cli.main()
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and "Usage" in ended.stdout, ended.stderr
    assert "Unix-like" in ended.stdout
    assert (tmp_path / "file").read_bytes() == b"whole" and list(tmp_path.iterdir()) == [tmp_path / "file"]


WITHOUT_LINKS = PermissionError(errno.EPERM, "no links here")


def only_plain_renames(monkeypatch: pytest.MonkeyPatch, link_error: BaseException | None) -> None:
    """Take away renames that never replace, and hard links too if there is an error for them."""
    monkeypatch.setattr(renames, "renameat2", lambda *_: False)
    if link_error is not None:

        def link(*_: object, **__: object) -> None:
            raise link_error

        monkeypatch.setattr(os, "link", link)


@pytest.mark.parametrize("system", ["renameat2", "links", "neither"])
def test_a_file_that_appears_meanwhile_is_kept(tmp_path: Path, system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if system != "renameat2":
        only_plain_renames(monkeypatch, None if system == "links" else WITHOUT_LINKS)
    path = tmp_path / "codes"
    with pytest.raises(EigenmapError, match="codes exists"), atomic_write(path, replace=False) as file:
        file.write(b"ours")
        path.write_bytes(b"theirs")
    with pytest.raises(EigenmapError, match="codes exists"), atomic_write(path, replace=False):
        raise AssertionError("nothing is written where a file is already")
    assert path.read_bytes() == b"theirs" and list(tmp_path.iterdir()) == [path]
    path.unlink()
    with atomic_write(path, replace=False) as file:
        file.write(b"ours")
    assert path.read_bytes() == b"ours" and list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems lack this rename")
def test_a_new_file_has_no_moment_at_which_a_kill_leaves_it_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without hard links an empty file claimed the name first, and was replaced in a second step."""

    def link(*_: object) -> None:
        raise WITHOUT_LINKS

    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(Path, "replace", lambda *_: pytest.fail("killed here, it would have left an empty file"))
    with atomic_write(tmp_path / "codes", replace=False) as file:
        file.write(b"whole")
    assert (tmp_path / "codes").read_bytes() == b"whole"


def test_a_move_that_fails_leaves_no_empty_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_plain_renames(monkeypatch, WITHOUT_LINKS)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(EigenmapError, match="codes cannot be written"), atomic_write(tmp_path / "codes", replace=False):
        pass
    assert not (tmp_path / "codes").exists()


@pytest.mark.parametrize("replace", [False, True])
def test_what_a_writer_killed_between_its_two_names_published_is_kept(tmp_path: Path, replace: bool) -> None:
    """Of old the next writer emptied the published file, whose second name it took for an abandoned partial file."""
    path, partial = tmp_path / "codes", tmp_path / ".codes.partial"
    partial.write_bytes(b"published")
    os.link(partial, path)
    with pytest.raises((EigenmapError, KeyboardInterrupt)), atomic_write(path, replace=replace):
        raise KeyboardInterrupt
    assert path.read_bytes() == b"published"
