"""Half an hour of training, serving and appending side by side, in which memory and open files must not grow.

    python -m benchmarks.reliability.steady --minutes 30

`eigenmap fit images` trains; `eigenmap serve` answers clients (searches, pictures, uploads); a third process adds items
to the served index, deletes as many, and saves the index over itself now and then. Anonymous memory and open files of
each are read every second. The first fifth is warm-up, in which clients ask without pauses, so that caches and pools
fill. The slope is that of Theil and Sen through the medians of each minute, with its 95 % interval. The history of
metrics, which training keeps as a part of its result, is subtracted (`history_bytes`).

Memory counts as growing if the whole interval is above zero and the growth is at least 16 bytes per operation (answer,
step or change), the smallest block that Python or the C library hands out: with less, nothing can be kept per
operation. Open files are compared by the fewest in the first and the last third: files that are open only during an
operation, such as locks, come and go, and a leak raises the fewest.
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
from benchmarks.reliability import outcome
from benchmarks.reliability.clients import Asker, Client
from benchmarks.reliability.outcome import Outcome

COMMAND = (sys.executable, "-c", "from eigenmap.cli import main; main()")
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
LEAST_BLOCK = 16
"""Bytes of the smallest block that Python or the C library hands out."""
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
            samples = _watch(processes, Work(folder, found), given.minutes * 60, found)
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

    def begin(*words: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        stack.callback(process.wait)
        stack.callback(process.send_signal, signal.SIGTERM)
        return process

    return {
        # Longer than the measurement.
        "training": begin(*COMMAND, *fit, "--minutes", 3 * minutes, "--out", folder / "run"),
        "serving": begin(*COMMAND, "serve", folder / "an.index", "--port", 0, "--quiet"),
        "appending": begin(sys.executable, "-c", APPENDING, folder / "an.index", folder / "changes"),
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
    processes: dict[str, subprocess.Popen[str]], work: Work, seconds: float, found: Outcome
) -> dict[str, list[Any]]:
    """Return time, bytes without history, open files, operations and history of each process, once per second."""
    samples: dict[str, list[Any]] = {role: [] for role in processes}
    began = time.perf_counter()
    while (now := time.perf_counter() - began) < seconds:
        for role, process in processes.items():
            if process.poll() is not None:
                _, err = process.communicate()
                found.fail(f"{role} ended by itself after {now:.0f} s with {process.returncode}: {err[-300:]}")
                return samples
            done, history = work.done(role)
            size = status_bytes("RssAnon", process.pid) - history
            samples[role].append((now, size, open_files(process.pid), done, history))
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
    kept = rows[rows[:, 0] >= WARM_UP * rows[-1, 0]]
    slope, low, high = slope_of(kept[:, 0], kept[:, 1])
    span = kept[-1, 0] - kept[0, 0]
    third = max(1, len(kept) // 3)
    files = [float(part[:, 2].min()) for part in (kept[:third], kept[-third:])]
    operations = int(kept[-1, 3] - kept[0, 3])
    each = slope * span / max(1, operations)
    found.measured[role] = {
        "mb": float(np.median(kept[:, 1]) / 1e6),
        "mb_per_hour": [3600 * value / 1e6 for value in (slope, low, high)],
        "growth_mb": slope * span / 1e6,
        "mb_by_minute": [round(value / 1e6, 3) for value in by_minute(kept[:, 0], kept[:, 1])[1]],
        "history_mb": float(kept[-1, 4] - kept[0, 4]) / 1e6,
        "operations": operations,
        "bytes_per_operation": each,
        "seconds": span,
        "open_files_early_and_late": files,
        "most_open_files": int(kept[:, 2].max()),
    }
    if low > 0 and each >= LEAST_BLOCK:
        found.fail(f"{role}: memory grows by {3600 * slope / 1e6:.1f} MB per hour, {each:.0f} bytes per operation")
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
