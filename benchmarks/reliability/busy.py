"""A minute of training beside busy neighbours: the time limit holds.

    python -m benchmarks.reliability.busy --minutes 1

`eigenmap fit images --minutes 1` trains on the embedded catalogue, free to choose its threads, while one process per
core computes without a pause, and then four per core; whatever else the machine does comes on top, and the load is
stored. Each neighbour has a session of its own, as programs of other people have: Linux divides the time of the cores
between sessions first, so that eight neighbours in the session of the command would leave it a ninth of one share.
The CPU time of the command is stored too: divided by its duration, it is the share of a core that was left.

Training must end within the minutes and a tenth. So must the whole command, except that imports, reading and measuring
may take half of the minutes: what they take beyond that comes on top.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability import outcome
from benchmarks.reliability.outcome import Outcome

LATE = 0.1
NEIGHBOURS = (1, 4)
"""Busy processes per core, of one round each."""
COMMAND = (sys.executable, "-m", "eigenmap", "fit", "images")


def experiment(given: argparse.Namespace, found: Outcome) -> None:
    from eigenmap.data.images import catalogue

    with tempfile.TemporaryDirectory(prefix="busy") as name:
        folder = Path(name)
        np.save(folder / "pictures.npy", catalogue.load("train", False).pixels.permute(0, 2, 3, 1).numpy())
        for number in range(given.rounds):
            busy = NEIGHBOURS[number % len(NEIGHBOURS)] * (os.cpu_count() or 1)
            with ExitStack() as stack:
                for _ in range(busy):
                    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
                    stack.callback(neighbour.wait)
                    stack.callback(neighbour.kill)
                _train(folder, given.minutes, busy, found)


def _train(folder: Path, minutes: float, busy: int, found: Outcome) -> None:
    words = ("--recipe", "catalogue", "--minutes", str(minutes), "--out", str(folder / "run"), "--force")
    # The threads are for the command to choose.
    free = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    command = [*COMMAND, str(folder / "pictures.npy"), *words]
    began, cpu_before = time.perf_counter(), _cpu_seconds()
    ended = subprocess.run(command, env=free, capture_output=True, text=True, check=False, start_new_session=True)
    seconds, cpu_seconds = time.perf_counter() - began, _cpu_seconds() - cpu_before
    found.rounds += 1
    if ended.returncode:
        found.fail(f"it ended with {ended.returncode}: {ended.stderr[-300:]}")
        return
    training = json.loads((folder / "run" / "model.json").read_text(encoding="utf-8"))["training"]
    said = re.search(r"takes about (\d+) s more", ended.stdout + ended.stderr)
    run = {
        "busy_processes": busy,
        "training_seconds": training["seconds"],
        "ordering_seconds": training["alignment_seconds"],
        "command_seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "steps": training["steps"],
        "threads": training["environment"]["threads"],
        "announced_seconds_to_order": float(said[1]) if said else None,
        "load": os.getloadavg()[0],
    }
    found.measured.setdefault("runs", []).append(run)
    late = lateness(run, 60 * minutes)
    for what in late:
        found.fail(f"{minutes:g} min beside {busy} busy processes: {what}")
    found.counts["ended in time"] += not late


def _cpu_seconds() -> float:
    """CPU time of all child processes that have ended; neighbours end later."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def lateness(run: dict[str, Any], limit: float) -> list[str]:
    """Tell what of a run exceeded its limit in seconds."""
    late = []
    training, whole = run["training_seconds"], run["command_seconds"]
    if training > limit * (1 + LATE):
        late.append(f"training took {training:.0f} s")
    rest = whole - training - run["ordering_seconds"]
    if whole > limit * (1 + LATE) + max(0.0, rest - limit / 2):
        late.append(f"the command took {whole:.0f} s, {rest:.0f} of them for imports, reading and measuring")
    return late


if __name__ == "__main__":
    outcome.run("busy", __doc__, len(NEIGHBOURS), experiment, minutes=1.0)
