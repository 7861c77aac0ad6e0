"""The disk that forgets, and the reading of traces: careless writers are caught, careful ones are not."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.robustness.disk import Disk, File, Folder, Names, Tree, Write
from tests.robustness.recording import MISSING, parsed, record
from tests.robustness.replay import Replay, read_tree, write_tree

HEAD = """
import os, sys
folder = sys.argv[1]
marks = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
def mark(text):
    os.write(marks, text.encode())
def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
old, new, aside = (os.path.join(folder, name) for name in ("file", "file.new", "aside"))
with open(old, "w") as file:
    file.write("old")
mark("begin")
with open(new, "w") as file:
    file.write("the new content")
"""
CARELESS = HEAD + "os.rename(new, old); mark('done'); mark('end')"
NO_FOLDER = HEAD + "sync(new); os.rename(new, old); mark('done'); mark('end')"
CAREFUL = HEAD + "sync(new); os.rename(new, old); sync(folder); mark('done'); mark('end')"

# One of each kind of call; the replay compares the files that it makes with those that are there.
ALL_KINDS = (
    HEAD
    + """
import shutil
with open(new, "r+b") as file:
    file.seek(4); file.write(b"NEW"); file.truncate(9); file.seek(0, 2); file.write(b"end")
with open(new, "ab", buffering=0) as file:
    file.write(b"1"); os.writev(file.fileno(), [b"2", b"3"])
descriptor = os.open(new, os.O_WRONLY)
copy = os.dup(descriptor)
os.pwrite(descriptor, b"X", 20)
os.lseek(copy, 1, os.SEEK_SET); os.write(descriptor, b"two"); os.pwritev(copy, [b"Y"], 22)
os.close(descriptor); os.posix_fallocate(copy, 0, 40); os.write(copy, b"!"); os.close(copy)
os.truncate(new, 30)
os.mkdir(aside); os.link(new, os.path.join(aside, "link")); shutil.copyfile(old, os.path.join(aside, "copy"))
inside = os.open(aside, os.O_RDONLY)
os.rename("copy", "moved", src_dir_fd=inside, dst_dir_fd=inside); os.unlink("link", dir_fd=inside)
os.mkdir(aside + "/deep"); os.rename(aside + "/deep", folder + "/deep"); os.rmdir(folder + "/deep")
mark("done"); mark("end")
"""
)


def states(program: str, tmp_path: Path) -> list[tuple[tuple[str, ...], bytes | None]]:
    """What a power cut may leave of `file`, after which acknowledgements."""
    folder, marks = tmp_path.resolve() / "folder", tmp_path.resolve() / "marks"
    folder.mkdir()
    command = [sys.executable, "-c", program, str(folder), str(marks)]
    calls = record(command, tmp_path / "trace", tmp_path, dict(os.environ))
    return [(state.acknowledged, state.tree.get("file")) for state in Replay(folder, marks).states(calls)]


def test_a_rename_without_fsync_may_leave_an_empty_file_half_a_file_or_zeros(tmp_path: Path) -> None:
    found = {content for acknowledged, content in states(CARELESS, tmp_path) if acknowledged}
    assert {b"old", b"", b"the new", bytes(15), b"the new" + bytes(8), b"the new content"} == found


def test_a_rename_without_fsync_of_the_folder_may_be_undone(tmp_path: Path) -> None:
    found = {content for acknowledged, content in states(NO_FOLDER, tmp_path) if acknowledged}
    assert found == {b"old", b"the new content"}


def test_a_careful_rename_is_there_when_it_is_acknowledged_and_whole_before(tmp_path: Path) -> None:
    found = states(CAREFUL, tmp_path)
    assert {content for acknowledged, content in found if acknowledged} == {b"the new content"}
    assert {content for acknowledged, content in found if not acknowledged} == {b"old", b"the new content"}


def test_every_kind_of_call_is_understood(tmp_path: Path) -> None:
    assert (("done",), b"old") in states(ALL_KINDS, tmp_path)


def test_a_call_that_another_thread_interrupts_is_joined() -> None:
    lines = [
        '7 write(3<\\x2f\\x61>, "\\x68\\x69", 2 <unfinished ...>',
        "8 fsync(4<\\x2f\\x62>) = 0",
        "7 <... write resumed>) = 2",
        '8 openat(AT_FDCWD<\\x2f>, "\\x61", O_RDONLY) = -1 ENOENT (No such file or directory)',
        "7 +++ exited with 0 +++",
    ]
    calls = list(parsed(lines))
    assert [(call.name, call.descriptors, call.strings) for call in calls] == [
        ("fsync", [(4, "/b")], []),
        ("write", [(3, "/a")], [b"hi"]),
    ]


def test_an_exchange_is_one_change() -> None:
    disk = Disk()
    first, second = Folder(), Folder()
    file = File()
    disk.change(Names({(disk.root, "a"): first}))
    disk.change(Names({(disk.root, "b"): second}))
    disk.change(Names({(first, "x"): file}))
    disk.change(Write(file, 0, b"1"))
    disk.sync_all()
    disk.change(Names({(disk.root, "a"): second, (disk.root, "b"): first}))
    before: Tree = {"a": None, "b": None, "a/x": b"1"}
    assert {tuple(sorted(tree)) for tree in disk.crash_states()} == {("a", "a/x", "b"), ("a", "b", "b/x")}
    assert before in list(disk.crash_states())
    disk.sync(disk.root)
    assert list(disk.crash_states()) == [{"a": None, "b": None, "b/x": b"1"}] * 4


def test_trees_are_written_as_they_are_read(tmp_path: Path) -> None:
    tree: Tree = {"a": None, "a/b": b"1", "c": b""}
    write_tree(tree, tmp_path / "tree")
    assert read_tree(tmp_path / "tree") == tree


def test_without_strace_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(AssertionError, match="apt-get install strace"):
        states(CAREFUL, tmp_path)
    assert "strace is needed" in MISSING
