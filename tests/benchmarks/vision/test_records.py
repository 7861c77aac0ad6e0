"""A long run: paused, carried on, measured."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.common.sweep import PAUSED
from benchmarks.vision import carry, jobs, records, sets
from benchmarks.vision.jobs import Job
from benchmarks.vision.sets import DataSet
from eigenmap.training.checkpoint import Checkpoint, load
from tests.end_to_end.photos import pictures

SIZE, TRAIN, TEST = 12, 160, 24
JOB = Job("cifar10", "scl-wide", 0.01, 22, n_components=8, batch_size=36, part="candidates")
FIGURES = ("knn_held_out", "knn_test", "knn_code_held_out", "knn_code_test", "linear_ridge_test", "linear_sgd_test")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    images, labels = pictures(TRAIN + TEST, SIZE), np.arange(TRAIN + TEST) % 4
    parts = {"train_x": images[:TRAIN], "train_y": labels[:TRAIN], "test_x": images[TRAIN:], "test_y": labels[TRAIN:]}
    np.savez(tmp_path / "cifar10.npz", **parts)
    monkeypatch.setitem(sets.SETS, "cifar10", DataSet("laptop", TRAIN, "weak"))
    return tmp_path


def words(data: Path, *more: str, job: Job = JOB, results: Path | None = None) -> list[str]:
    of_job = {"set": "cifar10", "method": job.method, "rate": job.rate, "epochs": job.epochs, "part": job.part}
    of_job |= {"components": job.n_components, "batch-size": job.batch_size}
    described = [word for name, value in of_job.items() for word in (f"--{name}", str(value))]
    return ["records", "--data", str(data), "--results", str(results or data / "results"), "--eager", *described, *more]


def test_a_run_is_paused_at_a_checkpoint_and_carried_on_elsewhere(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def paused(until: float) -> str:
        """Run until a time on a clock that adds a second whenever it is read; return what is said."""
        clock = iter(range(100))
        monkeypatch.setattr(records, "now", lambda: float(next(clock)))
        monkeypatch.setattr("sys.argv", words(data, "--until", str(until)))
        with pytest.raises(SystemExit) as ended:
            records.main()
        assert ended.value.code == PAUSED
        return capsys.readouterr().out

    assert "time is up" in paused(until=-1.0) and not (data / "results").exists()
    results = data / "results"
    folder, carried = results / "runs" / JOB.name, results / f"{JOB.name}.carry"
    assert "paused at step 40\n" in paused(until=3.5)  # ten epochs of four steps took a second, and end at 3
    assert load(folder / "checkpoint.pt").step == 40 and not (results / f"{JOB.name}.json").exists()
    assert "paused at step 80\n" in paused(until=2.0)  # the same machine; at least one checkpoint is written
    for file in folder.iterdir():
        file.unlink()
    assert carry.parts(carried)
    monkeypatch.setattr("sys.argv", words(data))
    records.main()  # another machine, which has the small files alone
    assert "knn_code_test" in capsys.readouterr().out and not carry.parts(carried)
    assert (results / f"{JOB.name}.json").is_file() and load(folder / "checkpoint.pt").step == 88


def test_a_longer_record_continues_a_shorter_one_from_before_its_decay(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "RECORD_EPOCHS", (30, 60))
    short = Job("cifar10", "scl-wide-late", 0.01, 30, n_components=8, batch_size=36, part="records")
    long = replace(short, epochs=60)
    assert (short.undecayed, long.undecayed) == (20, 50) and short.shorter() is None and long.shorter() == short
    assert replace(long, method="scl-wide").shorter() is None and replace(long, part="candidates").undecayed == 0

    def trained(job: Job, results: Path) -> Checkpoint:
        monkeypatch.setattr("sys.argv", words(data, job=job, results=results))
        records.main()
        return load(results / "runs" / job.name / "checkpoint.pt")

    alone = trained(long, data / "alone")
    shared = data / "shared"
    trained(short, shared)
    assert load(shared / "runs" / short.name / "before-decay.pt").step == 20 * 4
    continued = trained(long, shared)
    assert continued.step == alone.step == 60 * 4
    assert all(torch.equal(continued.network[name], alone.network[name]) for name in alone.network)
    history = json.loads((shared / f"{long.name}.json").read_text())["history"]
    assert history[0]["step"] < 20 * 4 < history[-1]["step"]
    for file in (shared / "runs").rglob("*.pt"):  # another machine has the small files alone
        file.unlink()
    (shared / f"{long.name}.json").unlink()
    assert not carry.parts(records.Files(short, shared).undecayed)  # of no more use
    records.Files(replace(long, epochs=61), shared).begin()
    assert load(shared / "runs" / long.name.replace("e60", "e61") / "checkpoint.pt").step == 50 * 4


def test_a_record_paused_in_its_decay_leaves_the_start_of_the_next_one(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "RECORD_EPOCHS", (40, 80))
    short = Job("cifar10", "scl-wide-late", 0.01, 40, n_components=8, batch_size=36, part="records")
    clock = iter(range(100))
    monkeypatch.setattr(records, "now", lambda: float(next(clock)))
    monkeypatch.setattr("sys.argv", words(data, "--until", "6.5", job=short))
    with pytest.raises(SystemExit):
        records.main()
    results = data / "results"
    there = results / "runs" / short.name
    assert load(there / "checkpoint.pt").step == load(there / "before-decay.pt").step == 30 * 4 == short.undecayed * 4
    (there / "before-decay.pt").unlink()
    records.Files(short, results).hand_on(results / "runs" / "longer")
    assert load(results / "runs" / "longer" / "checkpoint.pt").step == 30 * 4


def test_a_run_measures_encoder_and_stored_code(data: Path) -> None:
    job = Job("cifar10", "scl-wide-average", 0.01, 1, n_components=8, batch_size=36, part="records")
    result = records.run(job, data, data / "run", until=time.time() + 600, compiled=False)
    assert all(0 <= result[name] <= 1 for name in FIGURES)
    assert result["held_out_share"] == 0.02 and result["recipe"]["weight_average"] == 0.999
    assert result["protocol"].endswith("2% of the training images are not trained on")


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("scl-wide-taught", {"objective": "scl-taught"}),
        ("scl-wide-crops", {"crops": 4}),
        ("scl-wide-linear", {"decay": "linear"}),
        ("scl-wide-deep", {"projector_layers": 3}),
        ("scl-cifar-simclr", {"views": "cifar-simclr"}),
    ],
)
def test_every_candidate_trains(data: Path, method: str, settings: dict[str, object]) -> None:
    job = Job("cifar10", method, 0.01, 1, n_components=8, batch_size=36, part="candidates")
    result = records.run(job, data, data / "run", compiled=False)
    assert result["recipe"].items() >= settings.items() and 0 <= result["knn_code_test"] <= 1
