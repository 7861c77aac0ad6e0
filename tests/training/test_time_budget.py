from __future__ import annotations

import pytest
import torch

from eigenmap.core.batch import Batch
from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import build
from eigenmap.training import TrainingConfig, measure_step, start, steps_for_budget
from eigenmap.training.threads import fastest_threads
from tests.training.toys import ToyNetwork, ToyRelation


def test_steps_fit_the_budget_within_bounds() -> None:
    assert steps_for_budget(60, 0.25) == 240
    assert steps_for_budget(60, 0.2501) == 239
    assert steps_for_budget(60, 0.25, least=300) == 300
    assert steps_for_budget(60, 0.25, most=100) == 100
    with pytest.raises(EigenmapError, match="least"):
        steps_for_budget(60, 0.25, least=10, most=5)


class TimedRelation(ToyRelation):
    """Relation that advances the clock by 1 s per batch, and by more for the first ones (warm-up)."""

    def __init__(self, *slow: float) -> None:
        super().__init__()
        self.slow, self.now = slow, 0.0

    def batch(self, step: int) -> Batch:
        self.now += self.slow[step] if step < len(self.slow) else 1.0
        return super().batch(step)


def test_a_step_is_measured_after_its_warmup_and_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    relation, network = TimedRelation(2.0, 2.0), ToyNetwork()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    monkeypatch.setattr("time.perf_counter", lambda: relation.now)
    config = TrainingConfig(steps=10, accelerator="cpu")
    assert measure_step(network, relation, build("nested"), config, steps=8, warmup=2) == 1.0
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(p.grad is None for p in network.parameters())


def test_a_slow_machine_is_not_measured_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    config = TrainingConfig(steps=10, accelerator="cpu")
    for slow, measured, seconds in (((2.0, 2.0), 1.0, 4 + 4), ((60.0,), 1.0, 60 + 4), ((60.0, 50.0), 50.0, 60 + 50)):
        relation = TimedRelation(*slow)
        monkeypatch.setattr("time.perf_counter", lambda relation=relation: relation.now)
        given = ToyNetwork(), relation, build("nested"), config
        assert measure_step(*given, warmup=2, at_most=3.0) == measured
        assert relation.now == seconds


def test_small_crops_are_part_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cropped(TimedRelation):
        def crops(self, step: int) -> torch.Tensor:
            self.now += 3.0
            return torch.stack([self.batch(step).x] * config.crops)

    config = TrainingConfig(steps=1000, crops=2, accelerator="cpu")
    relation = Cropped()
    monkeypatch.setattr("time.perf_counter", lambda: relation.now)
    assert measure_step(ToyNetwork(), relation, build("nested"), config, steps=2, warmup=1) == 5.0
    assert fastest_threads(ToyNetwork(), relation, build("nested"), config, start(config)).seconds == 5.0
