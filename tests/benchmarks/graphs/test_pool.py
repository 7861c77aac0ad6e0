"""Jobs in processes that stay: what is done, left out, failed and repeated."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.graphs import pool
from benchmarks.graphs.pool import Task


def square(given: int) -> dict[str, Any]:
    """Square a number; 3 is a mistake, and 4 ends the process as an error of CUDA would."""
    if given == 3:
        raise ValueError("no square of 3")
    if given == 4:
        raise RuntimeError("CUDA error: an illegal instruction")
    return {"square": given * given, "process": os.getpid()}


def test_every_job_is_run_once_and_failures_are_told(tmp_path: Path) -> None:
    tasks = [Task(f"job-{number}", number, 1.0) for number in (1, 3, 4, 5)]
    assert pool.sweep(tasks, square, tmp_path, seconds=120, workers=1) == ["job-3", "job-4"]
    assert "no square of 3" in (tmp_path / "job-3.log").read_text()
    assert "illegal instruction" in (tmp_path / "job-4.log").read_text()
    before = {path: path.read_text() for path in tmp_path.glob("*.json")}
    assert len(before) == 2
    assert pool.sweep(tasks[:1], square, tmp_path, seconds=120, workers=1) == []
    assert {path: path.read_text() for path in tmp_path.glob("*.json")} == before


def test_a_job_that_would_end_too_late_is_not_begun(tmp_path: Path) -> None:
    tasks = [Task("long", 1, 1e6), Task("short", 2, 1.0)]
    assert pool.sweep(tasks, square, tmp_path, seconds=120, workers=2) == ["long"]
    assert not (tmp_path / "long.log").exists()


def slow(given: int) -> dict[str, Any]:
    """Take a second."""
    time.sleep(1)
    return {"number": given}


def test_workers_of_a_killed_sweep_end_after_their_job(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\nfrom benchmarks.graphs.pool import Task, sweep\n"
        "from tests.benchmarks.graphs.test_pool import slow\n"
        "tasks = [Task(f'job-{number:02}', number, 1.0) for number in range(20)]\n"
        f"sweep(tasks, slow, Path({str(tmp_path)!r}), seconds=600, workers=1)"
    )
    sweep = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not list(tmp_path.glob("*.json")) and time.monotonic() < until:
        time.sleep(0.05)
    sweep.kill()
    sweep.wait()
    time.sleep(3)
    finished = len(list(tmp_path.glob("*.json")))
    time.sleep(3)
    assert 1 <= finished == len(list(tmp_path.glob("*.json"))) < 20
