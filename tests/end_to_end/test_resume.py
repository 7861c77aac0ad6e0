"""A run that is killed goes on as if nothing had happened."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

from tests.cli.run import Result
from tests.end_to_end.conftest import FIT
from tests.end_to_end.process import eigenmap, finish, start

CLOCK = {"seconds", "images_per_second"}


def metrics(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name not in CLOCK} for line in lines]


def stop(run: Path, blow: signal.Signals, *command: object, cwd: Path) -> Result:
    """Start, wait for a checkpoint that was not there before, and strike; again if the run was over sooner."""
    kept = run.with_name("kept")
    if run.exists():
        shutil.copytree(run, kept)
    for _ in range(10):
        process = start(*command, cwd=cwd)
        before = _written(run)
        while _written(run) == before and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(blow)
        stopped = finish(process)
        assert "Traceback" not in stopped.err
        if not (run / "model.json").exists():
            return stopped
        shutil.rmtree(run)
        if kept.exists():
            shutil.copytree(kept, run)
    raise AssertionError("the run was always over before it could be stopped")


def _written(run: Path) -> int:
    """When the checkpoint was written; 0 if there is none."""
    file = run / "checkpoint.pt"
    return file.stat().st_mtime_ns if file.exists() else 0


def test_a_run_that_was_stopped_ends_with_the_same_weights(fitted: Path, tmp_path: Path) -> None:
    """Interrupted, resumed, killed and resumed again: what comes out is what the run of `fitted` left, unstopped."""
    run = tmp_path / "stopped"
    fit = ("fit", "images", "PHOTOS", "--out", run, *FIT)
    interrupted = stop(run, signal.SIGINT, *fit, cwd=fitted)
    assert interrupted.code == 130
    last = interrupted.err.splitlines()[-1]
    assert last == "Error: stopped; the same command with --resume goes on from the last checkpoint."

    killed = stop(run, signal.SIGKILL, *fit, "--resume", cwd=fitted)
    assert killed.code == -signal.SIGKILL
    assert metrics(run)[-1]["step"] < 60

    eigenmap(*fit, "--resume", cwd=fitted)
    whole = fitted / "runs" / "mine"
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert metrics(run) == metrics(whole)
