"""Recorded calls, made again on a disk that forgets, with every state that a power cut may leave after each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.robustness.disk import Disk, File, Folder, Names, Resize, Tree, Write, digest
from tests.robustness.recording import Call


@dataclass
class Open:
    """An open file, and where the next write goes."""

    node: File | Folder
    place: int = 0
    append: bool = False


@dataclass(frozen=True)
class State:
    """What a power cut may leave."""

    tree: Tree
    acknowledged: tuple[str, ...]
    last: str
    """The call before the cut."""


class Replay:
    """The calls below `folder`, one after the other; writes to the file `marks` say how far the process is."""

    def __init__(self, folder: Path, marks: Path) -> None:
        self.folder, self.marks = folder, marks
        self.disk = Disk()
        self.opened: dict[int, Open] = {}

    def states(self, calls: Iterable[Call], subsets: int = 0) -> Iterator[State]:
        """All different states from the mark "begin" to the mark "end"; other marks are acknowledgements."""
        begun, seen = False, set[tuple[int, tuple[str, ...]]]()
        acknowledged: tuple[str, ...] = ()
        for call in calls:
            mark = self.mark(call)
            if mark == "begin":
                begun = True
                self.disk.sync_all()  # what was prepared is history
            elif mark == "end":
                self._compare()
                return
            elif mark is not None:
                acknowledged = (*acknowledged, mark)
            elif not self.make(call):
                continue
            for tree in self.disk.crash_states(subsets) if begun else ():
                found = digest(tree)
                if (found, acknowledged) not in seen:
                    seen.add((found, acknowledged))
                    last = f"{call.name} {' '.join(self.places(call))}" if mark is None else f"the mark {mark!r}"
                    yield State(tree, acknowledged, last)
        raise AssertionError("the recorded process did not come to its end")

    def _compare(self) -> None:
        """Calls that are not understood would show in files that are not as they should be."""
        made, there = self.disk.tree(), read_tree(self.folder)
        different = [path for path in {*made, *there} if made.get(path, "") != there.get(path, "")]
        assert not different, f"the recorded calls do not make these files as they are: {sorted(different)}"

    def mark(self, call: Call) -> str | None:
        """What the process said by this call."""
        said = call.name == "write" and call.descriptors[0][1] == str(self.marks)
        return call.strings[0].decode() if said else None

    def places(self, call: Call) -> list[str]:
        """Paths of a call, relative to the folder."""
        named = [path for number, path in call.descriptors if number >= 0] or call.paths
        return [path for path in map(self.inside, named) if path is not None]

    def inside(self, path: str) -> str | None:
        """A path relative to the folder; None if it leads elsewhere."""
        return str(Path(path).relative_to(self.folder)) if Path(path).is_relative_to(self.folder) else None

    def make(self, call: Call) -> bool:
        """Make a call again; False if it changes nothing below the folder."""
        if call.name in ("open", "openat", "creat"):
            return self._open(call)
        if call.name == "close":
            self.opened.pop(call.descriptors[0][0], None)
            return False
        if call.name in ("dup", "dup2", "dup3") or "F_DUPFD" in call.arguments:
            self.opened.pop(call.result, None)
            if call.descriptors[0][0] in self.opened:
                self.opened[call.result] = self.opened[call.descriptors[0][0]]
            return False
        if call.name.startswith(("rename", "link", "symlink", "unlink", "rmdir", "mkdir", "truncate")):
            return self._by_name(call)
        handle = self.opened.get(call.descriptors[0][0])
        if handle is None:
            return False
        if call.name in ("fsync", "fdatasync"):
            self.disk.sync(handle.node)
            return True
        if call.name == "lseek":
            handle.place = call.result
        return call.name not in ("lseek", "fcntl") and self._edit(call, handle)

    def _open(self, call: Call) -> bool:
        self.opened.pop(call.result, None)
        path = self.inside(call.paths[0])
        if path is None or "O_TMPFILE" in call.arguments:
            return False
        created = path != "." and self.disk.slot(path)[1] not in self.disk.slot(path)[0].live
        if created:
            self.disk.change(Names({self.disk.slot(path): File()}))
        node = self.disk.find(path)
        self.opened[call.result] = Open(node, append="O_APPEND" in call.arguments)
        emptied = isinstance(node, File) and node.live and (call.name == "creat" or "O_TRUNC" in call.arguments)
        if emptied:
            assert isinstance(node, File)
            self.disk.change(Resize(node, 0))
        return created or bool(emptied)

    def _edit(self, call: Call, handle: Open) -> bool:
        """Change the content of an open file."""
        file = handle.node
        assert isinstance(file, File), call
        if call.name in ("ftruncate", "fallocate"):
            self.disk.change(Resize(file, sum(call.numbers[-2:]), only_grow=call.name == "fallocate"))
            return True
        if call.name == "sendfile":
            assert "NULL" not in call.arguments, "a copy from an unknown place"
            source, start = call.descriptors[1][1], call.numbers[0]
            content = Path(source).read_bytes()[start : start + call.result]
        else:
            assert call.name != "copy_file_range", "it is not known what was copied"
            content = b"".join(call.strings)[: call.result]
        if call.name.startswith("pwrite"):
            place = call.numbers[-2 if call.name == "pwritev2" else -1]
        else:
            place = len(file.live) if handle.append else handle.place
            handle.place = place + len(content)
        self.disk.change(Write(file, place, content))
        return bool(content)

    def _by_name(self, call: Call) -> bool:
        """Change names, or the size of a file that has a name."""
        paths = [self.inside(path) for path in call.paths]
        if paths[0] in (None, "."):  # nothing there, or the folder itself is made
            return False
        assert None not in paths and not call.name.startswith("symlink"), f"not modelled: {call}"
        places = [self.disk.slot(str(path)) for path in paths]
        first, last = places[0], places[-1]
        here = first[0].live.get(first[1])
        if call.name == "truncate":
            assert isinstance(here, File)
            self.disk.change(Resize(here, call.numbers[-1]))
        elif call.name.startswith("mkdir"):
            self.disk.change(Names({first: Folder()}))
        elif call.name.startswith("link"):
            self.disk.change(Names({last: here}))
        elif call.name.startswith("rename"):
            there = last[0].live[last[1]] if "RENAME_EXCHANGE" in call.arguments else None
            self.disk.change(Names({first: there, last: here}))
        else:
            self.disk.change(Names({first: None}))
        return True


def read_tree(folder: Path) -> Tree:
    """The files and folders that are really there."""
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}


def write_tree(tree: Tree, folder: Path) -> None:
    """Make files and folders."""
    folder.mkdir(parents=True)
    for path in sorted(tree):
        content = tree[path]
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)
