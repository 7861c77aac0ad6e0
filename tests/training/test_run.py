"""Run folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import build
from eigenmap.training import TrainingConfig, train
from eigenmap.training.optim import schedule
from tests.training.toys import ToyNetwork, ToyRelation

CONFIG = TrainingConfig(steps=4, lr=1e-2, log_every=2, checkpoint_every=2, accelerator="cpu")

HOLD = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def run(folder: Path, resume: bool = False) -> int:
    return train(ToyNetwork(), ToyRelation(), build("nested"), CONFIG, out=folder, resume=resume).steps


@pytest.mark.parametrize("resume", [False, True])
def test_two_processes_do_not_train_in_one_folder(tmp_path: Path, resume: bool) -> None:
    run(tmp_path)
    (tmp_path / "model.json").write_text("{}")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    other = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(other, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        with pytest.raises(EigenmapError, match=r"process.*training"):
            run(tmp_path, resume)
        process.kill()  # a killed process releases its lock
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert run(tmp_path, resume) == 4


def test_a_folder_is_free_after_a_run_and_after_one_that_was_refused(tmp_path: Path) -> None:
    run(tmp_path)
    shorter = TrainingConfig(**{**vars(CONFIG), "steps": 3})
    for _ in range(2):
        with pytest.raises(EigenmapError, match=r"steps .*4.*3"):
            train(ToyNetwork(), ToyRelation(), build("nested"), shorter, out=tmp_path, resume=True)
    assert run(tmp_path) == 4


def test_a_new_run_takes_the_place_of_an_old_model_and_a_resumed_one_does_not(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "model.json").write_text("{}")
    run(tmp_path, resume=True)
    assert (tmp_path / "model.json").exists()
    run(tmp_path)
    assert not (tmp_path / "model.json").exists()


def test_a_run_is_continued_with_more_steps_on_their_schedule(tmp_path: Path) -> None:
    """The rate of every further step is that of the longer schedule; the steps before are not taken again."""
    run(tmp_path)
    longer = TrainingConfig(**{**vars(CONFIG), "steps": 8, "log_every": 1})
    result = train(ToyNetwork(), ToyRelation(), build("nested"), longer, out=tmp_path, resume=True)
    assert result.steps == 8
    rates = {record["step"]: record["lr"] for record in result.history}
    expected = [CONFIG.lr * schedule(step, 8, 0, CONFIG.final_lr_fraction) for step in range(4, 8)]
    assert [rates[step] for step in range(5, 9)] == expected
    again = train(ToyNetwork(), ToyRelation(), build("nested"), longer, out=tmp_path, resume=True)
    assert again.steps == 8 and again.history == result.history
