"""A disk that forgets: what a power cut may leave of recorded changes to files.

Everything has two forms, live (what processes see) and durable (what is certainly on disk). A change is live at once
and waits until an fsync of its file, or of the folder that holds the name, makes it durable. Until then the disk may
have taken it, all of it or a part, or not, in any order: POSIX promises nothing else. Only a rename is one change, in
the folder it leaves and in the one it enters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

Tree: TypeAlias = dict[str, bytes | None]
"""Content of every file, None for folders, by path."""


@dataclass(eq=False)
class File:
    """A file without its name."""

    live: bytearray = field(default_factory=bytearray)
    durable: bytes = b""


@dataclass(eq=False)
class Folder:
    """Names, and what they name."""

    live: dict[str, File | Folder] = field(default_factory=dict)
    durable: dict[str, File | Folder] = field(default_factory=dict)


@dataclass(eq=False)
class Names:
    """Names that change together: None where one is gone."""

    changes: dict[tuple[Folder, str], File | Folder | None]


@dataclass(eq=False)
class Write:
    """Bytes at a place of a file."""

    file: File
    place: int
    content: bytes


@dataclass(eq=False)
class Resize:
    """A file is cut to a size, unless it may only grow, or grows to it by zeros."""

    file: File
    size: int
    only_grow: bool = False


Change: TypeAlias = Names | Write | Resize


class Disk:
    """Files and folders below one folder, and the changes that are not durable yet."""

    def __init__(self) -> None:
        self.root = Folder()
        self.pending: list[Change] = []

    def find(self, path: str) -> File | Folder:
        """What processes see under a relative path."""
        node: File | Folder = self.root
        for part in parts(path):
            assert isinstance(node, Folder)
            node = node.live[part]
        return node

    def slot(self, path: str) -> tuple[Folder, str]:
        """The folder of a name, and the name."""
        *folders, name = parts(path)
        folder = self.find("/".join(folders))
        assert isinstance(folder, Folder)
        return folder, name

    def change(self, change: Change) -> None:
        """Make a change that processes see at once."""
        _apply([change], {}, {}, live=True)
        self.pending.append(change)

    def sync(self, node: File | Folder) -> None:
        """Make durable what is waiting for this file, or for names in this folder."""
        for change in [change for change in self.pending if _concerns(change, node)]:
            place = self.pending.index(change)
            del self.pending[place]
            if isinstance(change, Names):
                for (folder, name), target in change.changes.items():
                    _assign(folder.durable, name, target)
                    for earlier in self.pending[:place]:  # of the same name, in a folder not synced: overtaken
                        if isinstance(earlier, Names):
                            earlier.changes.pop((folder, name), None)
            else:
                content = bytearray(change.file.durable)
                _edit(content, change)
                change.file.durable = bytes(content)

    def sync_all(self) -> None:
        """Make everything durable."""
        for change in list(self.pending):
            for node in {folder for folder, _ in change.changes} if isinstance(change, Names) else {change.file}:
                self.sync(node)

    def tree(self) -> Tree:
        """What processes see."""
        return after(self.root, self.pending)

    def crash_states(self, subsets: int = 0) -> Iterator[Tree]:
        """What a power cut may leave now, as `_survivors` has it."""
        for changes in _survivors(self.pending, subsets):
            yield after(self.root, changes)


def _survivors(waiting: list[Change], subsets: int) -> Iterator[list[Change]]:
    """Of the changes that wait, those that may have reached the disk: the classic cases, and random subsets."""
    yield waiting
    yield [change for change in waiting if isinstance(change, Names)]
    yield [change for change in waiting if not isinstance(change, Names)]
    yield [_only_size(change) for change in waiting]
    for n, change in enumerate(waiting):
        yield [change]
        yield waiting[:n]
        yield [*waiting[:n], *waiting[n + 1 :]]
        if isinstance(change, Write):
            torn = Write(change.file, change.place, change.content[: len(change.content) // 2])
            yield [*waiting[:n], torn]
            yield [*waiting[:n], torn, *waiting[n + 1 :]]
            yield [*waiting[:n], torn, _only_size(change), *waiting[n + 1 :]]
    dice = Random(len(waiting))
    for _ in range(subsets):
        yield [change for change in waiting if dice.random() < 0.5]


def parts(path: str) -> list[str]:
    """The names in a relative path."""
    return [part for part in path.split("/") if part not in ("", ".")]


def after(root: Folder, changes: Iterable[Change]) -> Tree:
    """The durable files, and these changes."""
    names: dict[Folder, dict[str, File | Folder]] = {}
    contents: dict[File, bytearray] = {}
    _apply(changes, names, contents)
    tree: Tree = {}

    def walk(folder: Folder, path: str) -> None:
        for name, node in names.get(folder, folder.durable).items():
            if isinstance(node, Folder):
                tree[path + name] = None
                walk(node, f"{path}{name}/")
            else:
                tree[path + name] = bytes(contents[node]) if node in contents else node.durable

    walk(root, "")
    return tree


def digest(tree: Tree) -> int:
    """The same for equal trees, and at once for files that were hashed before: an object of bytes keeps its hash."""
    return hash(frozenset(tree.items()))


def _concerns(change: Change, node: File | Folder) -> bool:
    if isinstance(change, Names):
        return any(folder is node for folder, _ in change.changes)
    return change.file is node


def _apply(
    changes: Iterable[Change],
    names: dict[Folder, dict[str, File | Folder]],
    contents: dict[File, bytearray],
    live: bool = False,
) -> None:
    """Make changes to copies of what is durable, or to what is live."""
    for change in changes:
        if isinstance(change, Names):
            for (folder, name), target in change.changes.items():
                _assign(folder.live if live else names.setdefault(folder, dict(folder.durable)), name, target)
        else:
            file = change.file
            _edit(file.live if live else contents.setdefault(file, bytearray(file.durable)), change)


def _assign(names: dict[str, File | Folder], name: str, target: File | Folder | None) -> None:
    if target is None:
        names.pop(name, None)
    else:
        names[name] = target


def _edit(content: bytearray, change: Write | Resize) -> None:
    size = change.size if isinstance(change, Resize) else change.place + len(change.content)
    if size > len(content):
        content.extend(bytes(size - len(content)))
    if isinstance(change, Write):
        content[change.place : size] = change.content
    elif not change.only_grow:
        del content[size:]


def _only_size(change: Change) -> Change:
    """The size without the data: blocks that never reached the disk hold zeros, or what was there before."""
    if isinstance(change, Write):
        return Resize(change.file, change.place + len(change.content), only_grow=True)
    return change
