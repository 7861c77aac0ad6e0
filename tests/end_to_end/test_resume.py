"""A run that is killed goes on as if nothing had happened."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

from tests.cli.run import Result
from tests.end_to_end.conftest import FIT
from tests.end_to_end.process import eigenmap, finish, start

CLOCK = {"seconds", "images_per_second"}


def metrics(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name not in CLOCK} for line in lines]


# Strikes when the third checkpoint is due: two are written, and the steps since the second are lost.
STRUCK = """
import signal
from eigenmap.training import checkpoint

save, calls = checkpoint.save, []
def struck(*given):
    calls.append(1)
    if len(calls) == 3:
        signal.raise_signal(signal.{blow})
    save(*given)
checkpoint.save = struck
"""


def stop(blow: signal.Signals, *command: object, cwd: Path) -> Result:
    """Run a command that a signal ends."""
    stopped = finish(start(*command, cwd=cwd, before=STRUCK.format(blow=blow.name)))
    assert "Traceback" not in stopped.err
    return stopped


def test_a_run_that_was_stopped_ends_with_the_same_weights(fitted: Path, tmp_path: Path) -> None:
    """Interrupted, resumed, killed and resumed again: what comes out is what the run of `fitted` left, unstopped."""
    run = tmp_path / "stopped"
    fit = ("fit", "images", "PHOTOS", "--out", run, *FIT)
    interrupted = stop(signal.SIGINT, *fit, cwd=fitted)
    assert interrupted.code == 130
    last = interrupted.err.splitlines()[-1]
    assert re.search("stopped.*--resume", last)
    assert metrics(run)[-1]["step"] == 18  # the checkpoint is of step 12

    killed = stop(signal.SIGKILL, *fit, "--resume", cwd=fitted)
    assert killed.code == -signal.SIGKILL
    assert metrics(run)[-1]["step"] == 30  # from 12 on, again to the third checkpoint
    assert not (run / "model.json").exists()

    eigenmap(*fit, "--resume", cwd=fitted)
    whole = fitted / "runs" / "mine"
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert metrics(run) == metrics(whole)
