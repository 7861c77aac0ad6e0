"""Kills processes that change an index: at every point at which something reaches the disk, and at random moments.

Run as a program of its own, since it forks: `python -m tests.search.killing every FOLDER STRIDE` kills at every point,
or every second, ...; `... random FOLDER ROUNDS` kills so many times.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np

from eigenmap.core import renames
from eigenmap.search import CodeIndex, directory
from eigenmap.search.adding import add
from eigenmap.search.backend import IndexSpec, ItemBatch
from tests.search.building import build_index

K = 10
VERSION2 = Path(__file__).with_name("version2.index")
CALLS = ("pwrite", "fsync", "ftruncate", "replace", "rename", "unlink", "mkdir", "rmdir", "link", "open")


def codes(*numbers: int) -> np.ndarray:
    return np.stack([np.random.default_rng(n).standard_normal(K) for n in numbers]).astype(np.float32)


def some(path: Path, count: int = 6) -> CodeIndex:
    index = CodeIndex(K, where=path)
    if count:
        index.add(codes(*range(count)), [str(n) for n in range(count)], [{"n": n} for n in range(count)])
    return index


def first_items(path: Path) -> None:
    CodeIndex.open(path).add(codes(60, 61), ["a", "b"])


def grow(path: Path) -> None:
    CodeIndex.open(path).upsert(codes(50, 51), ["50", "1"])


def grow_much(path: Path) -> None:
    directory._LONGEST_LOG = 2  # so that the log is rewritten
    grow(path)


def shrink(path: Path) -> None:
    CodeIndex.open(path).delete(["1", "3"])


def save_over_itself(path: Path) -> None:
    CodeIndex.open(path).save(path, overwrite=True)


def replace(path: Path) -> None:
    build_index(IndexSpec(K), [ItemBatch(["a", "b"], codes(60, 61), [{}, {}])], path, overwrite=True)


def pictures(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (count, 3, 16, 16), dtype=np.uint8)


def replace_with_pictures(path: Path) -> None:
    def finish(made: directory.Directory) -> None:
        from eigenmap.service.thumbnails import store

        made.write_note("sources", {"sources": []})
        store(made.path, ["a", "b"], pictures(2))

    batches = [ItemBatch(["a", "b"], codes(60, 61), [{}, {}])]
    build_index(IndexSpec(K), batches, path, overwrite=True, finish=finish)


def add_with_pictures(path: Path) -> None:
    from eigenmap.service.thumbnails import store

    add(
        CodeIndex.open(path),
        path.parent / "camera",
        ["1", "50"],
        codes(51, 50),
        store=lambda ids, rows: store(path, ids, pictures(len(rows))),
    )


def with_plain_renames(change: Callable[[Path], object]) -> Callable[[Path], object]:
    def changed(path: Path) -> None:
        renames.renameat2 = lambda *_: False
        change(path)

    return changed


NEW = {"a": 60, "b": 61}
GROWN = {"0": 0, "1": 51, "2": 2, "3": 3, "4": 4, "5": 5, "50": 50}
SIX = {str(n): n for n in range(6)}
"""What items are, by id: the number that their code is made of."""

Way = tuple[Callable[[Path], object], Callable[[Path], object], dict[str, int] | None, dict[str, int]]
WAYS: dict[str, Way] = {
    "create": (lambda path: None, lambda path: some(path, 0), None, {}),
    "first items": (lambda path: some(path, 0), first_items, {}, NEW),
    "upsert": (some, grow, SIX, GROWN),
    "upsert, long log": (some, grow_much, SIX, GROWN),
    "delete": (some, shrink, SIX, {str(n): n for n in (0, 2, 4, 5)}),
    "save over itself": (some, save_over_itself, SIX, SIX),
    "replace": (some, replace, SIX, NEW),
    "replace, plain renames": (some, with_plain_renames(replace), SIX, NEW),
}

WITH_PICTURES: dict[str, Way] = {
    "replace with pictures": (some, replace_with_pictures, SIX, NEW),
    "add with pictures": (some, add_with_pictures, SIX, {**SIX, "camera/1": 51, "50": 50}),
}
"""Slow, since they need torch, and a process that has it is slow to fork."""


def main() -> None:
    os.fsync = lambda descriptor: None  # a kill loses nothing that was written; only a power cut does
    folder, number = Path(sys.argv[2]), int(sys.argv[3])
    if sys.argv[1] == "every":
        ways = WAYS
        if number == 1:
            ways |= WITH_PICTURES
            import_module("eigenmap.service.thumbnails")  # once, before the forks
        print(json.dumps({name: every_point(folder, number, *way) for name, way in ways.items()}))
    else:
        print(json.dumps(sum(at_random(folder, seed) for seed in range(number))))


def every_point(
    folder: Path,
    stride: int,
    prepare: Callable[[Path], object],
    change: Callable[[Path], object],
    before: dict[str, int] | None,
    after: dict[str, int],
) -> int:
    """Kill the change at its first point, a later one, ... until it ends by itself: how many points there are."""
    for point in range(1, 10_000, stride):
        path = folder / "here" / "an.index"
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        prepare(path)
        ended = killed_at(point, change, path)
        check(path, [after] if ended else [before, after])
        if ended:
            return point - 1
    raise AssertionError("it never ends")


def killed_at(point: int, change: Callable[[Path], object], path: Path) -> bool:
    """Run a change in a process that is killed at its n-th point; True if it ended before that."""
    child = os.fork()
    if child == 0:
        hook(point)
        change(path)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL, status
    return status == 0


def hook(point: int) -> None:
    """Kill this process before the n-th call that may change something on disk; a write is also cut in half."""
    left = point

    def die_if_due() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def hooked(name: str) -> None:
        real = getattr(os, name)

        def call(*args, **options):
            if name == "open" and not args[1] & os.O_CREAT:
                return real(*args, **options)
            die_if_due()
            if name == "pwrite" and left == 1:
                real(args[0], args[1][: len(args[1]) // 2], args[2])
            if name == "pwrite":
                die_if_due()
            return real(*args, **options)

        setattr(os, name, call)

    for name in CALLS:
        hooked(name)
    rename = renames.renameat2

    def renameat2(*args):
        die_if_due()
        return rename(*args)

    renames.renameat2 = renameat2


def check(path: Path, allowed: list[dict[str, int] | None]) -> None:
    """The index is in one of the states, whole, and the next change leaves nothing behind that a kill left."""
    if not path.exists() and None in allowed:
        some(path, 0)
        allowed = [{}]
    index = CodeIndex.open(path)
    index.verify()
    ids = index.ids
    state = next((state for state in allowed if state is not None and sorted(state) == sorted(ids)), None)
    assert state is not None, (ids, allowed)
    if ids:
        np.testing.assert_array_equal(index.codes(ids), codes(*(state[name] for name in ids)))
    index.add(codes(99), ["next"])
    assert sorted(CodeIndex.open(path).ids) == sorted([*state, "next"])
    np.testing.assert_array_equal(CodeIndex.open(path).codes(["next"]), codes(99))
    CodeIndex.open(path).verify()
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert not [file.name for file in path.iterdir() if file.name.startswith(".")]


def at_random(folder: Path, seed: int) -> int:
    """Kill a process that changes an index all the time; every change that it acknowledged is there."""
    place = folder / f"{seed}"
    place.mkdir()
    chance = random.Random(seed)
    source = place / "an.index"
    if seed % 3 == 0:
        shutil.copytree(VERSION2, source)
        model = dict.fromkeys(CodeIndex.open(source).ids)
    else:
        some(source)
        model = dict.fromkeys(SIX)
    plan = [(chance.choice(["add", "add", "delete", "save", "note"]), n) for n in range(1000, 1200)]
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        directory._LONGEST_LOG = 3
        index = CodeIndex.open(source)
        live = list(index.ids)
        os.write(write, b".")
        for kind, n in plan:
            step(index, kind, n, live)
            os.write(write, b".")
        os._exit(0)
    os.close(write)
    os.read(read, 1)  # it has begun
    time.sleep(chance.uniform(0, 0.06))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    acknowledged = 0
    while data := os.read(read, 4096):
        acknowledged += len(data)
    os.close(read)
    live = list(model)
    for kind, n in plan[:acknowledged]:
        step(None, kind, n, live)
    also = list(live)
    for kind, n in plan[acknowledged : acknowledged + 1]:
        step(None, kind, n, also)
    index = CodeIndex.open(source)
    index.verify()
    assert sorted(index.ids) in (sorted(live), sorted(also)), (index.ids, live, also)
    index.add(codes(99), ["next"])
    assert [file.name for file in place.iterdir()] == ["an.index"]
    assert not [file.name for file in source.iterdir() if file.name.startswith(".")]
    CodeIndex.open(source).verify()
    shutil.rmtree(place)
    return 1


def step(index: CodeIndex | None, kind: str, n: int, live: list[str]) -> None:
    """Change an index, or only the list of what it holds."""
    if kind == "add":
        live.append(str(n))
        if index is not None:
            index.add(codes(n), [str(n)])
    elif kind == "delete" and len(live) > 1:
        name = live.pop(n % len(live))
        if index is not None:
            index.delete([name])
    elif kind == "save" and index is not None:
        assert index.backend.directory is not None
        index.save(index.backend.directory.path, overwrite=True)
    elif kind == "note" and index is not None:
        index.backend.write_note("some", {"n": n})


if __name__ == "__main__":
    main()
