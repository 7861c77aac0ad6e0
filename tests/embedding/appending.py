"""A stream of new nodes whose process is killed again and again: `python -m tests.embedding.appending FOLDER KILLS`.

The process forks one for each run and computes nothing itself, so that forking is safe. A run appends one node after
the other and says after each how many there are. What it said must be there when it was killed, whole.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np

from eigenmap import Eigenmap
from eigenmap.embedding.append import append_nodes
from eigenmap.embedding.node_store import NodeCodes

NODES = 24
"""Number of nodes that arrive."""


def arrive(run: Path, folder: Path, last: int, said: int) -> None:
    """Append nodes until there are `last`, one at a time; which node comes next follows from how many there are."""
    model = Eigenmap.load(run)
    while (n := len(NodeCodes.open(folder))) < last:
        drawn = np.random.default_rng(n)
        x = drawn.normal(size=(1, model.input.n_features)).astype(np.float32)  # type: ignore[union-attr]
        append_nodes(model, folder, x, np.stack([np.full(2, n), drawn.choice(n, 2, replace=False)]))
        os.write(said, b".")


def forked(run: Path, folder: Path, last: int) -> tuple[int, int]:
    """Start a run in a process of its own; return its number and the pipe in which it says what it has done."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            arrive(run, folder, last, writing)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    return child, reading


def told(reading: int) -> int:
    """Count what a run said before it ended."""
    count = 0
    while part := os.read(reading, 4096):
        count += len(part)
    os.close(reading)
    return count


def main() -> None:
    """Compare a stream that is killed with one that is not."""
    home, kills = Path(sys.argv[1]), int(sys.argv[2])
    run, calm, folder = home / "run", home / "calm", home / "codes"
    shutil.copytree(folder, calm)
    first = len(NodeCodes.open(folder))
    last = first + NODES
    began = time.monotonic()
    child, reading = forked(run, calm, last)
    assert told(reading) == NODES and os.waitpid(child, 0)[1] == 0, "a stream that nobody kills comes to its end"
    usual = time.monotonic() - began
    chance, killed = random.Random(0), 0
    while (n := len(NodeCodes.open(folder))) < last:
        child, reading = forked(run, folder, last)
        if killed < kills:
            time.sleep(chance.uniform(0, 2 * usual / NODES + 0.3 * usual * (killed % 2)))
            os.kill(child, signal.SIGKILL)
            killed += 1
        said = told(reading)
        os.waitpid(child, 0)
        stored = NodeCodes.open(folder)
        stored.verify()
        # One more may be there than was said: the process was killed between the two.
        assert n + said <= len(stored) <= n + said + 1, (n, said, len(stored))
    for name in ("codes", "indptr", "indices"):
        np.testing.assert_array_equal(np.load(calm / f"{name}.npy"), np.load(folder / f"{name}.npy"))
    print(f"{killed} kills, {last} nodes")


if __name__ == "__main__":
    main()
