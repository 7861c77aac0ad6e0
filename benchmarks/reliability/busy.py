"""A minute of training beside busy neighbours: the time limit holds.

    python -m benchmarks.reliability.busy --minutes 1

`eigenmap fit images --minutes 1` trains on the embedded catalogue, free to choose its threads, while as many processes
as there are cores compute without a pause; whatever else the machine does comes on top, and the load is stored.
Training must end within the minutes and a tenth. The time of the whole command is stored too: it has imports, reading,
and the part of ordering the features that half of the minutes could not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks.reliability import outcome
from benchmarks.reliability.outcome import Outcome

LATE = 0.1
COMMAND = (sys.executable, "-m", "eigenmap", "fit", "images")


def experiment(given: argparse.Namespace, found: Outcome) -> None:
    from eigenmap.data.images import catalogue

    with tempfile.TemporaryDirectory(prefix="busy") as name, ExitStack() as stack:
        folder = Path(name)
        np.save(folder / "pictures.npy", catalogue.load("train", False).pixels.permute(0, 2, 3, 1).numpy())
        for _ in range(os.cpu_count() or 1):
            neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(neighbour.wait)
            stack.callback(neighbour.kill)
        for _ in range(given.rounds):
            _train(folder, given.minutes, found)


def _train(folder: Path, minutes: float, found: Outcome) -> None:
    words = ("--recipe", "catalogue", "--minutes", str(minutes), "--out", str(folder / "run"), "--force")
    # The threads are for the command to choose.
    free = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    began = time.perf_counter()
    ended = subprocess.run(
        [*COMMAND, str(folder / "pictures.npy"), *words], env=free, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - began
    found.rounds += 1
    if ended.returncode:
        found.fail(f"it ended with {ended.returncode}: {ended.stderr[-300:]}")
        return
    training = json.loads((folder / "run" / "model.json").read_text(encoding="utf-8"))["training"]
    said = re.search(r"takes about (\d+) s more", ended.stdout + ended.stderr)
    found.measured.setdefault("runs", []).append(
        {
            "training_seconds": training["seconds"],
            "command_seconds": seconds,
            "steps": training["steps"],
            "threads": training["environment"]["threads"],
            "announced_seconds_to_order": float(said[1]) if said else None,
            "load": os.getloadavg()[0],
        }
    )
    if training["seconds"] > 60 * minutes * (1 + LATE):
        found.fail(f"{minutes:g} min of training took {training['seconds']:.0f} s")
    else:
        found.counts["ended in time"] += 1


if __name__ == "__main__":
    outcome.run("busy", __doc__, 1, experiment, minutes=1.0)
