"""Half an hour of training, serving and appending side by side, in which memory and open files must not grow.

    python -m benchmarks.reliability.steady --minutes 30

`eigenmap fit images` trains; `eigenmap serve` answers clients (searches, pictures, uploads); a third process adds items
to the served index, deletes as many, and saves the index over itself now and then. The first fifth is warm-up, in
which clients ask without pauses, so that caches fill. Judged is the memory that each process can reach (`reachable`):
the slope of Theil and Sen through the medians of each minute, with its 95 % interval. Resident memory, which also
contains what allocators keep, is reported. The history of metrics, which training keeps as a part of its result, is
subtracted.

Memory counts as growing if the whole interval is above zero and the growth is at least 16 bytes per operation (answer,
step or change), the smallest block that the C library hands out, or a tenth of one of Python's blocks: with less, not
every operation can keep a block. Open files are compared by their lowest decile in the first and the last third: files
that are open only during an operation, such as locks, come and go, and a leak raises it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.timing import status_bytes
from benchmarks.reliability import outcome, reachable
from benchmarks.reliability.clients import Asker, Client
from benchmarks.reliability.outcome import Outcome

COMMAND = (sys.executable, "-c", "from eigenmap.cli import main; main()")
REPORTED = "from benchmarks.reliability import reachable; reachable.report({!r})\n"
APPENDING = """
import pathlib, sys, time
import numpy as np
from eigenmap.search import CodeIndex
index, rng, live, n = CodeIndex.open(sys.argv[1]), np.random.default_rng(0), [], 0
while True:
    names = [f"new {n}-{i}" for i in range(20)]
    index.add(rng.normal(size=(20, index.n_components)).astype(np.float32), names)
    live.append(names)
    if len(live) > 5:
        index.delete(live.pop(0))
    if n % 50 == 49:
        index.save(sys.argv[1], overwrite=True)
    n += 1
    pathlib.Path(sys.argv[2]).write_text(str(n))
    time.sleep(0.1)
"""
WARM_UP = 0.2
LEAST_BYTES, LEAST_BLOCKS = 16, 0.1
"""Growth per operation that counts: the smallest block of the C library, a tenth of one of Python's."""
TIME, RESIDENT, FILES, DONE, TAKEN, BLOCKS = range(6)
"""Columns of the samples."""
PAUSE_S = 0.05
"""Seconds between two requests of a client, after the warm-up."""


def experiment(given: argparse.Namespace, found: Outcome) -> None:
    with tempfile.TemporaryDirectory(prefix="steady") as name, ExitStack() as stack:
        folder = Path(name)
        processes = _start(folder, given.minutes, stack)
        ended, slow_from = threading.Event(), time.perf_counter() + WARM_UP * given.minutes * 60
        port = _port(processes["serving"])
        clients = [threading.Thread(target=_ask, args=(port, number, ended, slow_from, found)) for number in range(2)]
        for client in clients:
            client.start()
        try:
            samples = _watch(processes, folder, given.minutes * 60, found)
        finally:
            ended.set()
            for client in clients:
                client.join()
    for role, rows in samples.items():
        found.rounds = max(found.rounds, len(rows))
        judge(role, np.array(rows), found)


def _start(folder: Path, minutes: float, stack: ExitStack) -> dict[str, subprocess.Popen[str]]:
    from tests.end_to_end.photos import write_photos

    write_photos(folder / "PHOTOS", per_kind=40)
    small = ("--batch-size", 16, "--image-size", 16, "--device", "cpu", "--quiet")
    fit = ("fit", "images", folder / "PHOTOS", "-k", 8, *small)
    _finish(*fit, "--steps", 20, "--out", folder / "model")
    _finish("index", folder / "model", folder / "PHOTOS", "--out", folder / "an.index", "--quiet", "--device", "cpu")

    def begin(role: str, program: str, *words: object) -> subprocess.Popen[str]:
        program = REPORTED.format(str(folder / role)) + program
        command = [sys.executable, "-c", program, *map(str, words)]
        env = {**os.environ, **reachable.EXACT}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        stack.callback(process.wait)
        stack.callback(process.send_signal, signal.SIGTERM)
        return process

    return {
        # Longer than the measurement.
        "training": begin("training", COMMAND[-1], *fit, "--minutes", 3 * minutes, "--out", folder / "run"),
        "serving": begin("serving", COMMAND[-1], "serve", folder / "an.index", "--port", 0, "--quiet"),
        "appending": begin("appending", APPENDING, folder / "an.index", folder / "changes"),
    }


class Work:
    """Operations of each process so far, and bytes that it keeps as a part of its result."""

    def __init__(self, folder: Path, found: Outcome) -> None:
        self.metrics, self.changes, self.found = folder / "run" / "metrics.jsonl", folder / "changes", found
        self.read, self.steps, self.history = 0, 0, 0

    def done(self, role: str) -> tuple[int, int]:
        if role == "serving":
            return sum(self.found.counts.copy().values()), 0
        if role == "appending":
            return int(self.changes.read_text() or 0) if self.changes.exists() else 0, 0
        lines = self.metrics.read_bytes()[self.read :].splitlines(keepends=True) if self.metrics.exists() else []
        for line in lines:
            if line.endswith(b"\n"):
                record = json.loads(line)
                self.read += len(line)
                self.steps = record["step"]
                self.history += history_bytes(record)
        return self.steps, self.history


def history_bytes(value: Any) -> int:
    """Size of a record in memory; its keys are shared by all records."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(map(history_bytes, value.values()))
    return size + sum(map(history_bytes, value)) if isinstance(value, list) else size


def _finish(*words: object) -> None:
    subprocess.run([*COMMAND, *map(str, words)], check=True)


def _port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline().strip().rstrip("/").rsplit(":", 1)[1])


def _ask(port: int, number: int, stop: threading.Event, slow_from: float, found: Outcome) -> None:
    from tests.service.pictures import FORMATS, encoded

    ids = [f"{kind}/{i}.png" for kind in ("bars", "disc", "stripes") for i in range(1, 40, 2)]
    asker, client = Asker(number, ids, [encoded(kind) for kind in FORMATS]), Client(port)
    while not stop.is_set():
        request = asker.upload() if asker.chance.random() < 0.1 else asker.request()
        try:
            status, _ = client.ask(request)
            found.counts[f"status {status}"] += 1
        except OSError as error:
            found.fail(f"{request.path[:80]}: no answer ({error!r})")
            client.close()
        stop.wait(PAUSE_S if time.perf_counter() > slow_from else 0)
    client.close()


def _watch(
    processes: dict[str, subprocess.Popen[str]], folder: Path, seconds: float, found: Outcome
) -> dict[str, list[Any]]:
    """Return the samples of each process, once per second."""
    work = Work(folder, found)
    samples: dict[str, list[Any]] = {role: [] for role in processes}
    began = time.perf_counter()
    while (now := time.perf_counter() - began) < seconds:
        for role, process in processes.items():
            if process.poll() is not None:
                _, err = process.communicate()
                found.fail(f"{role} ended by itself after {now:.0f} s with {process.returncode}: {err[-300:]}")
                return samples
            done, history = work.done(role)
            taken, blocks = reachable.read(folder / role)
            resident, files = status_bytes("RssAnon", process.pid), open_files(process.pid)
            if taken:
                samples[role].append((now, resident, files, done, taken - history, blocks))
        time.sleep(1)
    return samples


def open_files(pid: int) -> int:
    """Open files of a process, without the connections of its clients."""
    count = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed in the meantime
            count += not str(os.readlink(entry)).startswith("socket:")  # noqa: PTH115 - no path
    return count


def judge(role: str, rows: Any, found: Outcome) -> None:
    """Fit a slope to the memory of a process and compare its open files early and late."""
    if len(rows) < 10:
        found.fail(f"{role}: only {len(rows)} samples")
        return
    kept = rows[rows[:, TIME] >= WARM_UP * rows[-1, TIME]]
    slopes = {name: slope_of(kept[:, TIME], kept[:, name]) for name in (TAKEN, BLOCKS)}
    span, operations = kept[-1, TIME] - kept[0, TIME], int(kept[-1, DONE] - kept[0, DONE])
    each = {name: slope * span / max(1, operations) for name, (slope, _, _) in slopes.items()}
    third = max(1, len(kept) // 3)
    files = [float(np.quantile(part[:, FILES], 0.1)) for part in (kept[:third], kept[-third:])]
    found.measured[role] = {
        "reachable_mb": float(np.median(kept[:, TAKEN]) / 1e6),
        "mb_per_hour": [3600 * value / 1e6 for value in slopes[TAKEN]],
        "blocks": float(np.median(kept[:, BLOCKS])),
        "blocks_per_hour": [3600 * value for value in slopes[BLOCKS]],
        "operations": operations,
        "bytes_per_operation": each[TAKEN],
        "blocks_per_operation": each[BLOCKS],
        "reachable_mb_by_minute": [round(value / 1e6, 3) for value in by_minute(kept[:, TIME], kept[:, TAKEN])[1]],
        "resident_mb_by_minute": [round(value / 1e6, 3) for value in by_minute(kept[:, TIME], kept[:, RESIDENT])[1]],
        "seconds": span,
        "open_files_early_and_late": files,
        "most_open_files": int(kept[:, FILES].max()),
    }
    if slopes[TAKEN][1] > 0 and each[TAKEN] >= LEAST_BYTES:
        found.fail(f"{role}: memory grows by {each[TAKEN]:.0f} bytes per operation")
    if slopes[BLOCKS][1] > 0 and each[BLOCKS] >= LEAST_BLOCKS:
        found.fail(f"{role}: Python keeps {each[BLOCKS]:.1f} blocks per operation")
    if not operations:
        found.fail(f"{role}: it did nothing")
    if files[1] > files[0]:
        found.fail(f"{role}: open files grow from {files[0]:g} to {files[1]:g}")
    print(role, json.dumps(found.measured[role]), flush=True)


def slope_of(seconds: Any, values: Any, minute: float = 60.0) -> tuple[float, float, float]:
    """The slope of Theil and Sen through the medians of each minute, and its 95 % interval."""
    from scipy.stats import theilslopes

    times, middle = by_minute(seconds, values, minute)
    found = theilslopes(middle, times, 0.95)
    return float(found.slope), float(found.low_slope), float(found.high_slope)


def by_minute(seconds: Any, values: Any, minute: float = 60.0) -> tuple[list[float], list[float]]:
    """The mean time and the median of the values of each minute, or of eighths of a shorter time."""
    numbers = (seconds // min(minute, (seconds[-1] - seconds[0]) / 8)).astype(int)
    blocks = [numbers == number for number in np.unique(numbers)]
    return [float(np.mean(seconds[block])) for block in blocks], [float(np.median(values[block])) for block in blocks]


if __name__ == "__main__":
    outcome.run("steady", __doc__, 1, experiment, minutes=30.0)
