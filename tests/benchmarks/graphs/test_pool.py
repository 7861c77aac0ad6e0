"""Jobs in processes that stay: what is done, left out, failed and repeated."""

from __future__ import annotations

import os
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
