"""`eigenmap fit images --devices 2`: two processes on one machine make one model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.run import refused
from tests.end_to_end.conftest import FIT
from tests.end_to_end.process import ENVIRONMENT


def test_two_processes_fit_one_model(fitted: Path, tmp_path: Path) -> None:
    # Further processes begin the same command anew, so that it has to be a file.
    (tmp_path / "eigenmap.py").write_text("from eigenmap.cli import main\n\nmain()\n")
    words = ("fit", "images", "PHOTOS", "--out", tmp_path / "run", *FIT, "--devices", 2)
    environment = {**ENVIRONMENT, "GLOO_SOCKET_IFNAME": "lo", "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, tmp_path / "eigenmap.py", *map(str, words)],
        cwd=fitted,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    runs = (tmp_path / "run", fitted / "runs" / "mine")
    about, alone = (json.loads((run / "model.json").read_text()) for run in runs)
    for what in ("network", "input", "encoder"):
        assert about[what] == alone[what]
    assert about["training"]["steps"] == alone["training"]["steps"]
    together, single = (sorted(file.name for file in run.iterdir()) for run in runs)
    assert together == single


def test_machines_that_cannot_meet_are_told_how(fitted: Path, tmp_path: Path) -> None:
    words = ("fit", "images", fitted / "PHOTOS", "--out", tmp_path / "run", *FIT, "--nodes", 2)
    assert "torchrun --nnodes 2" in refused(*words)
    assert not (tmp_path / "run").exists()
