"""A run that is killed goes on as if nothing had happened."""

from __future__ import annotations

import json
import signal
import subprocess
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


def stop(process: subprocess.Popen[str], run: Path, blow: signal.Signals) -> Result:
    """Wait for a checkpoint that was not there before, and strike."""
    before = (run / "checkpoint.pt").stat().st_mtime_ns if (run / "checkpoint.pt").exists() else 0
    while not (run / "checkpoint.pt").exists() or (run / "checkpoint.pt").stat().st_mtime_ns == before:
        assert process.poll() is None, process.communicate()
        time.sleep(0.001)
    process.send_signal(blow)
    stopped = finish(process)
    assert "Traceback" not in stopped.err
    assert not (run / "model.json").exists()
    return stopped


def test_a_run_that_was_stopped_ends_with_the_same_weights(fitted: Path, tmp_path: Path) -> None:
    """Interrupted, resumed, killed and resumed again: what comes out is what the run of `fitted` left, unstopped."""
    run = tmp_path / "stopped"
    fit = ("fit", "images", "PHOTOS", "--out", run, *FIT)
    interrupted = stop(start(*fit, cwd=fitted), run, signal.SIGINT)
    assert interrupted.code == 130
    last = interrupted.err.splitlines()[-1]
    assert last == "Error: stopped; the same command with --resume goes on from the last checkpoint."

    killed = stop(start(*fit, "--resume", cwd=fitted), run, signal.SIGKILL)
    assert killed.code == -signal.SIGKILL
    assert metrics(run)[-1]["step"] < 60

    eigenmap(*fit, "--resume", cwd=fitted)
    whole = fitted / "runs" / "mine"
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert metrics(run) == metrics(whole)
