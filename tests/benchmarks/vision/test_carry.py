"""Checkpoints carried to another machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.common.errors import BenchmarkError
from benchmarks.vision import carry
from benchmarks.vision.carry import pack, parts, unpack
from eigenmap.objectives import build
from eigenmap.training import TrainingConfig, train
from eigenmap.training.checkpoint import load
from tests.training.test_average import StopAfter, StoppedError
from tests.training.toys import ToyNetwork, ToyRelation

CONFIG = TrainingConfig(
    steps=12, optimizer="sgd", lr=0.05, weight_average=0.7, log_every=4, checkpoint_every=4, accelerator="cpu"
)


def test_a_carried_run_ends_close_to_the_uninterrupted_one(tmp_path: Path) -> None:
    here, there, whole = (ToyNetwork() for _ in range(3))
    train(whole, ToyRelation(), build("scl-taught"), CONFIG)
    with pytest.raises(StoppedError):
        train(here, ToyRelation(), build("scl-taught"), CONFIG, out=tmp_path / "here", progress=StopAfter(8))
    pack(tmp_path / "here" / "checkpoint.pt", tmp_path / "run.carry")
    unpack(tmp_path / "run.carry", tmp_path / "there" / "checkpoint.pt")
    first, carried = (load(tmp_path / name / "checkpoint.pt") for name in ("here", "there"))
    assert carried.step == first.step == 8 and carried.settings == first.settings
    assert carried.optimizer["state"] == {} and first.optimizer["state"]
    for name in ("network", "objective", "average"):
        before, after = getattr(first, name), getattr(carried, name)
        assert before.keys() == after.keys() and before
        for key, tensor in before.items():
            rounded = tensor.half().float() if tensor.ndim > 1 else tensor
            assert torch.equal(after[key], rounded) and after[key].dtype == tensor.dtype
    result = train(there, ToyRelation(), build("scl-taught"), CONFIG, out=tmp_path / "there", resume=True)
    assert result.steps == 12
    moved = [float((w - v).detach().norm()) for w, v in zip(whole.parameters(), ToyNetwork().parameters(), strict=True)]
    apart = [float((w - v).detach().norm()) for w, v in zip(whole.parameters(), there.parameters(), strict=True)]
    assert 0 < sum(apart) < 0.3 * sum(moved)


def test_a_large_checkpoint_is_carried_in_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(ToyNetwork(), ToyRelation(), build("scl"), CONFIG, out=tmp_path / "run")
    file = tmp_path / "run.carry"
    size = pack(tmp_path / "run" / "checkpoint.pt", file)
    monkeypatch.setattr(carry, "PART", size // 3 - 1)
    assert pack(tmp_path / "run" / "checkpoint.pt", file) == size
    found = parts(file)
    assert [part.name for part in found] == [f"run.carry.{number:02}" for number in range(4)]
    assert [part.stat().st_size for part in found[:3]] == [size // 3 - 1] * 3
    unpack(file, tmp_path / "there" / "checkpoint.pt")
    assert load(tmp_path / "there" / "checkpoint.pt").step == CONFIG.steps
    for lost in (found[3], found[0]):
        lost.unlink()
        with pytest.raises(BenchmarkError, match=r"A part of .*run\.carry is missing"):
            unpack(file, tmp_path / "there" / "checkpoint.pt")
    monkeypatch.undo()
    pack(tmp_path / "run" / "checkpoint.pt", file)
    assert len(parts(file)) == 1  # none of the old ones
