"""A process that writes an index is killed at any moment: what it acknowledged is there, and nothing else."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from eigenmap.search import CodeIndex
from tests.end_to_end.process import ENVIRONMENT, LIMIT

K = 12

ROUNDS = 30

# A process that forks a writer for each line it reads, so that many writers cost the imports of one. The writer adds,
# replaces and deletes items, and says so after each call has returned. Both write to one pipe, so every line is one
# call of the system: `print` makes several where PYTHONUNBUFFERED is set, and lines would mix.
NURSERY = f"""
import os, sys
import numpy as np
from eigenmap.search import CodeIndex

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def work(path, step):
    index = CodeIndex.open(path)
    while True:
        codes = np.full((3, {K}), step + 1, dtype=np.float32) * np.arange(1, {K + 1}, dtype=np.float32)
        index.upsert(codes, [f"{{step}} a", f"{{step}} b", "again"], [{{"step": step}}] * 3)
        say("put", step)
        if step % 3 == 2:
            index.delete([f"{{step - 1}} a"])
            say("gone", step - 1)
        step += 1

for line in sys.stdin:
    child = os.fork()
    if not child:
        work(sys.argv[1], int(line))
    say("pid", child)
    say("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def killed(nursery: subprocess.Popen[str], step: int, calls: int, seconds: float) -> list[list[str]]:
    """Let a writer work until it has said so often that a call is over, and so much longer; kill it.

    Returns what it said it had done.
    """
    assert nursery.stdin is not None and nursery.stdout is not None
    print(step, file=nursery.stdin, flush=True)
    said: list[list[str]] = []
    writer: int | None = None
    while line := nursery.stdout.readline():
        words = line.split()
        if words[0] == "ended":
            assert int(words[1]) == -signal.SIGKILL, "the writer ended by itself"
            return said
        if words[0] == "pid":
            writer = int(words[1])
        else:
            said.append(words)
        if writer is not None and len(said) >= calls:
            time.sleep(seconds)
            os.kill(writer, signal.SIGKILL)
            writer = None
    raise AssertionError("nobody is there any more")


def test_every_acknowledged_change_survives_and_no_part_of_another(tmp_path: Path) -> None:
    path = tmp_path / "index"
    CodeIndex(K, where=path).add(np.ones((1, K)), ["again"])
    done: dict[str, int] = {"again": 0}
    step, dice = 0, random.Random(0)
    words = [sys.executable, "-c", NURSERY, str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as nursery:
        for _ in range(ROUNDS):
            for what, number in killed(nursery, step, dice.randrange(6), dice.uniform(0.0, 0.05)):
                if what == "put":
                    done |= {f"{number} a": int(number), f"{number} b": int(number), "again": int(number)}
                    step = int(number) + 1
                else:
                    del done[f"{number} a"]
            index = CodeIndex.open(path)
            index.backend.verify()  # type: ignore[attr-defined]
            there = {str(name) for name in index.ids}
            # The last call may have been complete without being able to say so, but then it is whole.
            if f"{step} a" in there:
                done |= {f"{step} a": step, f"{step} b": step, "again": step}
                step += 1
            elif step % 3 == 0 and f"{step - 2} a" not in there:
                done.pop(f"{step - 2} a", None)
            assert there == set(done)
            codes = index.codes(list(done))
            if step:
                expected = np.array([[number + 1] for number in done.values()]) * np.arange(1, K + 1)
                np.testing.assert_array_equal(codes, expected)
        assert nursery.stdin is not None
        nursery.stdin.close()
        assert nursery.wait(LIMIT) == 0
    assert step > ROUNDS
