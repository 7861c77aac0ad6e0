"""Disks that fill up or become read-only during a command: an error in one sentence, and nothing incomplete.

    python -m benchmarks.reliability.disk --operation "index append" --rounds 40

The output is on a small file system in memory (tmpfs), which this process mounts privately. In half of the rounds it
has so few pages that the command runs out of space, at evenly spread points between its first and its last page. In the
others it becomes read-only at a random moment, or is read-only from the start. For a load into a database, the data of
the server are on it, and it fills up in all rounds: no disk becomes read-only while a server writes to it. The command
must end with one sentence (or succeed, if it needed no more space), leave the old or the new content complete, and
succeed when repeated with enough space.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.reliability import outcome
from benchmarks.reliability.checking import Bench, bench, said
from benchmarks.reliability.children import Ended, load_libraries, start
from benchmarks.reliability.outcome import Outcome

INSIDE = "EIGENMAP_OWN_MOUNTS"
PAGE = 4096
LARGE = 256 * 2**20
"""Size in bytes of a disk that never fills up."""


def own_mounts() -> None:
    """Continue in a process with private mounts; needs root, or a system that allows user name spaces."""
    if os.environ.get(INSIDE):
        return
    for words in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        if subprocess.run([*words, "true"], capture_output=True).returncode == 0:
            os.environ[INSIDE] = "1"
            arguments = [sys.executable, "-m", "benchmarks.reliability.disk", *sys.argv[1:]]
            os.execvp("unshare", [*words, *arguments])
    raise SystemExit("this system does not allow mounting a file system: run as root, or allow user name spaces")


class SmallDisk:
    """A file system of a given size, mounted at a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._run("mount", "-t", "tmpfs", "-o", f"size={LARGE}", "tmpfs", str(folder))

    def resize(self, size: int) -> None:
        self._run("mount", "-o", f"remount,rw,size={size}", str(self.folder))

    def make_read_only(self) -> bool:
        """Remount read-only; False while a file is open for writing."""
        words = ["mount", "-o", "remount,ro", str(self.folder)]
        return subprocess.run(words, capture_output=True).returncode == 0

    def used(self) -> int:
        found = os.statvfs(self.folder)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def close(self) -> None:
        self._run("umount", "--lazy", str(self.folder))

    def _run(self, *words: str) -> None:
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr}")


def experiment(given: argparse.Namespace, found: Outcome) -> None:
    load_libraries()
    with tempfile.TemporaryDirectory(prefix="disk") as name:
        folder = Path(name)
        disk = SmallDisk(folder / "place")
        try:
            with bench(given.operation, folder, place=disk.folder / "here") as one:
                full = given.rounds if one.command.database else given.rounds // 2
                filled(one, disk, full, found)
                if full < given.rounds:
                    read_only(one, disk, given.rounds - full, given.seed, found)
        finally:
            disk.close()


def filled(one: Bench, disk: SmallDisk, rounds: int, found: Outcome) -> None:
    """Fill the disk at evenly spread points of the command."""
    disk.resize(LARGE)
    one.prepare()
    first = disk.used()
    last = _most_used(one, disk)
    for number in range(rounds):
        disk.resize(LARGE)
        one.prepare()
        # At least one page, since zero means no limit; a database also grows between the rounds.
        pages = max(1, (disk.used() + (last - first) * number // rounds) // PAGE)
        disk.resize(PAGE * pages)
        ended = start(one.words).ended()
        disk.resize(LARGE)
        _judge(one, f"full at {pages} of {last // PAGE} pages", ended, found)


def _most_used(one: Bench, disk: SmallDisk) -> int:
    """Return the maximum number of bytes that the undisturbed command uses."""
    most, child = 0, start(one.words)
    while not child.is_over():
        most = max(most, disk.used())
        time.sleep(0.001)
    child.ended()
    return max(most, disk.used())


def read_only(one: Bench, disk: SmallDisk, rounds: int, seed: int, found: Outcome) -> None:
    """Make the disk read-only from the start, then at random moments."""
    one.prepare()
    disk.make_read_only()
    ended = start(one.words).ended()
    disk.resize(LARGE)
    _judge(one, "read-only from the start", ended, found)
    one.prepare()
    began = time.perf_counter()
    start(one.words).ended()
    chance, within = random.Random(seed), time.perf_counter() - began
    for _ in range(1, rounds):
        one.prepare()
        child, moment = start(one.words), chance.uniform(0, within)
        time.sleep(moment)
        while not child.is_over() and not disk.make_read_only():
            time.sleep(0.002)  # a file is open for writing just now
        ended = child.ended()
        disk.resize(LARGE)
        _judge(one, f"read-only after {moment:.2f} s", ended, found)


def _judge(one: Bench, what: str, ended: Ended, found: Outcome) -> None:
    found.rounds += 1
    name = f"{one.command.name}, {what}"
    wrong = []
    if ended.code == 0:
        found.counts["ended well"] += 1
    elif ended.is_refusal:
        found.counts["refused in one sentence"] += 1
    else:
        wrong.append(f"it ended with {ended.code}: {said(ended)}")
    wrong += list(one.faults())
    found.counts["bad" if wrong else "good"] += 1
    for each in wrong:
        found.fail(f"{name}: {each}")


if __name__ == "__main__":
    own_mounts()
    outcome.run("disk", __doc__, 20, experiment, operation="index append")
