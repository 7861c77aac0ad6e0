from __future__ import annotations

import time

import pytest
import torch

from eigenmap.errors import EigenmapError
from eigenmap.objectives import build
from eigenmap.relations.batch import Batch
from eigenmap.training import TrainingConfig, measure_step, steps_for_budget
from tests.training.toys import ToyNetwork, ToyRelation


def test_steps_fit_the_budget_within_bounds() -> None:
    assert steps_for_budget(60, 0.25) == 240
    assert steps_for_budget(60, 0.2501) == 239
    assert steps_for_budget(60, 0.25, least=300) == 300
    assert steps_for_budget(60, 0.25, most=100) == 100
    with pytest.raises(EigenmapError, match="least"):
        steps_for_budget(60, 0.25, least=10, most=5)


class SlowRelation(ToyRelation):
    """Takes 10 ms a batch, and at first, as a machine that warms up, 100."""

    def batch(self, step: int) -> Batch:
        time.sleep(0.1 if step < 2 else 0.01)
        return super().batch(step)


def test_a_step_is_measured_after_its_warmup_and_nothing_is_changed() -> None:
    network, objective = ToyNetwork(), build("nested")
    before = {name: value.clone() for name, value in network.state_dict().items()}
    config = TrainingConfig(steps=10, accelerator="cpu")
    seconds = measure_step(network, SlowRelation(), objective, config, steps=8, warmup=2)
    assert 0.01 <= seconds < 0.04
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(p.grad is None for p in network.parameters())
