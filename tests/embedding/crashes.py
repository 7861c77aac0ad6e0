"""Rounds of `embed_images` in processes that are killed, or that meet: `python -m tests.embedding.crashes NAME FOLDER`.

A process of its own, which forks one for each run: it never computes itself, so that forking is safe. A model that
takes no time stands in for a real one, and nothing waits for the disk, since a kill is no power cut.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from PIL import Image

from eigenmap.core import renames
from eigenmap.core.errors import EigenmapError
from eigenmap.embedding import job
from eigenmap.embedding.shards import Codebook

DONE, REFUSED, BROKEN = 0, 2, 1
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Model:
    """Codes that are sums of pixels."""

    image = SimpleNamespace(size=2, channels=1)
    weights_sha256 = "run"

    @staticmethod
    def load(run: Path) -> Model:
        return Model()

    def check_dim(self, dim: int | None) -> int:
        return dim or 3

    def encode(self, pixels: torch.Tensor, dim: int, **_: object) -> np.ndarray:
        sums = pixels.flatten(1).numpy().astype(np.float32).sum(1, keepdims=True)
        return sums * np.arange(1, dim + 1, dtype=np.float32)


def embed(folder: Path, out: str, source: str = "new", **options: Any) -> None:
    job.embed_images("run", folder / source, folder / out, device="cpu", shard_size=2, files="npy", **options)


def write_pictures(folder: Path) -> None:
    for seed, source in enumerate(("old", "new")):
        (folder / source).mkdir(parents=True)
        for number, pixels in enumerate(np.random.default_rng(seed).integers(0, 255, (6, 2, 2), dtype=np.uint8)):
            Image.fromarray(pixels).save(folder / source / f"{number}.png")


def forked(work: Callable[[], object], kill_at: int | None = None) -> int:
    """Start a process that does some work, and dies before its `kill_at`-th change of the file system."""
    pid = os.fork()
    if pid:
        return pid
    code = BROKEN
    try:
        if kill_at is not None:
            sys.addaudithook(_killer(kill_at))
        work()
        code = DONE
    except EigenmapError as error:
        code = REFUSED if str(error).count("\n") == 0 else BROKEN
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _killer(kill_at: int) -> Callable[[str, tuple[Any, ...]], None]:
    changed = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal changed
        changes = event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "ctypes.dlsym", "os.truncate")
        # Before a file is made, and (in `sync_directory`) after one was renamed.
        opens = event == "open" and isinstance(arguments[2], int) and arguments[2] & (WRITING | os.O_DIRECTORY)
        if changes or opens:
            changed += 1
            if changed == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook


def finished(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def contents(folder: Path) -> dict[str, Any]:
    """Every visible thing at the outputs, with its bytes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.startswith("codes") and path.is_file():
            found[name] = path.read_bytes()
    return found


SCENES = {
    "folder": ("codes", False),
    "folder replaced": ("codes", True),
    "file": ("codes.npy", False),
    "file replaced": ("codes.npy", True),
}


def prepared(folder: Path, out: str, replaces: bool) -> dict[str, Any]:
    """A folder with pictures, and with older codes if they are to be replaced; what is there."""
    remove_codes(folder)
    if replaces:
        assert finished(forked(lambda: embed(folder, out, "old", dim=2))) == DONE
    return contents(folder)


def remove_codes(folder: Path) -> None:
    for path in folder.glob("codes*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def killed_and_again(folder: Path, scene: str, before: dict[str, Any], wanted: dict[str, Any], pid: int) -> int:
    """Wait for a process that may be killed, look at what it leaves, and run the same command again."""
    out, replaces = SCENES[scene]
    code = finished(pid)
    left = contents(folder)
    assert code in (DONE, -signal.SIGKILL), code
    assert_whole(left, before, wanted)
    again = finished(forked(lambda: embed(folder, out, overwrite=replaces)))
    if again == REFUSED:  # the work was over, and only what it had left behind was still to be removed
        assert left == wanted and not replaces, (scene, list(left))
    else:
        assert again == DONE, (scene, again)
    assert contents(folder) == wanted, (scene, list(left))
    assert_nothing_hidden(folder)
    return code


def assert_whole(left: dict[str, Any], before: dict[str, Any], wanted: dict[str, Any]) -> None:
    """What is there is old or new as a whole; for a moment codes may have no names, but never those of others."""
    names = {name for name in left if name.endswith("codes.ids.json")}
    if names or "codes.npy" not in left:
        assert left in ({}, before, wanted), list(left)
    else:
        assert left["codes.npy"] in (before.get("codes.npy"), wanted["codes.npy"])


def undisturbed(folder: Path, scene: str) -> dict[str, Any]:
    """What a run that nobody kills makes."""
    out, replaces = SCENES[scene]
    prepared(folder, out, replaces)
    assert finished(forked(lambda: embed(folder, out, overwrite=replaces))) == DONE
    return contents(folder)


def every_point(folder: Path, apart: int = 1) -> int:
    """Kill before every `apart`-th change of the file system, beginning elsewhere in every scene."""
    return sum(_every_point(folder, scene, first, apart) for first, scene in enumerate(SCENES, start=1))


def _every_point(folder: Path, scene: str, first: int, apart: int) -> int:
    out, replaces = SCENES[scene]
    wanted = undisturbed(folder, scene)
    for point in count(first, apart):
        before = prepared(folder, out, replaces)
        pid = forked(lambda: embed(folder, out, overwrite=replaces), kill_at=point)
        if killed_and_again(folder, scene, before, wanted, pid) == DONE:
            break
    assert point > 40, point  # or the hook sees nothing
    return len(range(first, point, apart))


def any_moment(folder: Path, rounds: int) -> int:
    """Kill at random times."""
    return sum(_any_moment(folder, scene, rounds // len(SCENES), seed) for seed, scene in enumerate(SCENES))


def _any_moment(folder: Path, scene: str, rounds: int, seed: int) -> int:
    chance = random.Random(seed)
    out, replaces = SCENES[scene]
    wanted = undisturbed(folder, scene)
    prepared(folder, out, replaces)
    began = time.perf_counter()
    assert finished(forked(lambda: embed(folder, out, overwrite=replaces))) == DONE
    within = 1.2 * (time.perf_counter() - began)
    kills = 0
    for _ in range(rounds):
        before = prepared(folder, out, replaces)
        pid = forked(lambda: embed(folder, out, overwrite=replaces))
        time.sleep(chance.uniform(0, within))
        os.kill(pid, signal.SIGKILL)
        killed = killed_and_again(folder, scene, before, wanted, pid) != DONE
        kills += killed
        within *= 1.1 if killed else 0.7  # the first run was slower or faster than these, on a busy machine
    assert kills > 0
    return rounds


def two_at_once(folder: Path, rounds: int) -> int:
    """Two processes with different settings: one finishes, the other is refused, and the codes are of the first."""
    for number in range(rounds):
        remove_codes(folder)
        lengths = (2, 3)
        pids = [forked(lambda dim=dim: embed(folder, "codes", dim=dim, overwrite=False)) for dim in lengths]  # type: ignore[misc]
        codes = [finished(pid) for pid in pids]
        assert sorted(codes) == [DONE, REFUSED], (number, codes)
        made = Codebook.open(folder / "codes")
        assert made.plan.dim == lengths[codes.index(DONE)] and made.verify()
        assert_nothing_hidden(folder)
    return rounds


def an_intruder(folder: Path, rounds: int, seed: int = 0) -> int:
    """Somebody makes a folder, or a file, under the name of the output at a random moment: it is never touched."""
    chance = random.Random(seed)
    lost = 0
    for number in range(rounds):
        out = folder / ("codes", "codes.npy")[number % 2]
        pid = forked(lambda out=out: embed(folder, out.name))  # type: ignore[misc]
        time.sleep(chance.uniform(0, 0.03))
        mine = folder / "mine"  # made elsewhere, since an empty folder counts as nothing
        mine.mkdir()
        (mine / "precious").write_text("mine")
        try:
            mine.rename(out)
        except OSError:
            shutil.rmtree(mine)
            assert finished(pid) == DONE
        else:
            assert finished(pid) == REFUSED
            assert [path.name for path in out.iterdir()] == ["precious"], number
            shutil.rmtree(out)
            lost += 1
            assert finished(forked(lambda out=out: embed(folder, out.name, overwrite=False))) == DONE  # type: ignore[misc]
        remove_codes(folder)
        assert_nothing_hidden(folder)
    assert lost > 0
    return rounds


def assert_nothing_hidden(folder: Path) -> None:
    hidden = [path for path in folder.iterdir() if path.name.startswith(".")]
    assert not hidden, hidden


def main() -> None:
    name, folder, arguments = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    torch.set_num_threads(1)
    job.Eigenmap = Model  # type: ignore[misc,assignment]
    os.fsync = lambda _: None  # type: ignore[assignment]
    if arguments.pop("plain_renames", False):  # a file system that can neither exchange nor rename without replacing
        renames.renameat2 = lambda *_: False
    write_pictures(folder)
    print(
        {work.__name__: work for work in (every_point, any_moment, two_at_once, an_intruder)}[name](folder, **arguments)
    )


if __name__ == "__main__":
    main()
