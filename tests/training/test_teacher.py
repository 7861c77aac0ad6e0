"""Objectives with a state of their own in the training loop: updates, teacher and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import BYOL, LearningObjective, MoCo, TaughtObjective, build
from eigenmap.training import TrainingConfig, start, train
from eigenmap.training.checkpoint import load
from eigenmap.training.loop import Learner
from eigenmap.training.progress import Silent
from eigenmap.training.teacher import Teacher
from tests.training.toys import BATCH, FEATURES, INPUTS, ToyNetwork, ToyRelation

LEARNING = ("swav", "moco", "byol", "simsiam", "scl-taught")
CONFIG = TrainingConfig(steps=12, optimizer="sgd", lr=0.05, checkpoint_every=5, accelerator="cpu")


class StoppedError(Exception):
    """Raised to cut a run short."""


class StopAt(Silent):
    def __init__(self, step: int) -> None:
        self.step = step

    def advance(self, step: int) -> None:
        if step > self.step:
            raise StoppedError


def test_a_teacher_follows_every_weight_and_has_no_gradient() -> None:
    network, other = ToyNetwork(seed=0), ToyNetwork(seed=1)
    teacher = Teacher(network)
    teacher.follow(other, momentum=0.9)
    for w, a, b in zip(teacher.parameters(), network.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(w, 0.9 * a.detach() + 0.1 * b.detach())
        assert not w.requires_grad and a.requires_grad


def test_groups_are_normalised_each_by_itself_and_come_back_in_their_places() -> None:
    network = ToyNetwork(dropout=0)
    x = torch.randn(10, INPUTS, generator=torch.Generator().manual_seed(0))
    order = torch.randperm(10, generator=torch.Generator().manual_seed(1))
    found = Teacher(network.train(), groups=3)(x, order)
    for part in order.tensor_split(3):
        torch.testing.assert_close(found[part], network(x[part])[1].detach())
    torch.testing.assert_close(Teacher(network, groups=8)(x[:3], order[:3]), network(x[:3])[1].detach())  # too few


def test_one_step_of_byol_by_hand() -> None:
    network, twin = ToyNetwork(norm=False, dropout=0), ToyNetwork(norm=False, dropout=0)
    first = Teacher(twin)
    config = TrainingConfig(steps=3, optimizer="sgd", lr=0.1, weight_decay=0.0, momentum=0.0, accelerator="cpu")
    objective, own = BYOL(hidden=5), BYOL(hidden=5)
    learner = Learner(start(config), network, objective, config)
    batch = ToyRelation().batch(0)
    learner.step(0, batch)

    own.begin(FEATURES, seed=config.seed)
    psi = twin(torch.cat(batch[:2]))[1]
    own(psi[:BATCH], psi[BATCH:], None, first.network(torch.cat(batch[:2]))[1].detach().chunk(2)).backward()
    for pair in ((network, twin), (objective.predictor, own.predictor)):
        for w, before in zip(*(module.parameters() for module in pair), strict=True):
            assert before.grad is not None and float(before.grad.abs().max()) > 0
            rate = 0.1  # no warm-up, and the first step of the cosine
            torch.testing.assert_close(w.detach(), before.detach() - rate * before.grad)
    assert objective.teacher is not None
    m = own.momentum(1 / 3)
    for w, before, now in zip(objective.teacher.parameters(), twin.parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(w, m * before.detach() + (1 - m) * now.detach())


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNING)
def test_what_is_learned_moves_and_lowers_the_loss(name: str) -> None:
    objective = build(name)
    assert isinstance(objective, LearningObjective)
    network = ToyNetwork()
    config = TrainingConfig(steps=150, lr=1e-2, log_every=10, accelerator="cpu")
    result = train(network, ToyRelation(), objective, config)
    assert result.history[-1]["loss"] < result.history[0]["loss"]
    begun = build(name)
    assert isinstance(begun, LearningObjective)
    begun.begin(FEATURES, seed=0)
    moved, before = objective.state_dict(), begun.state_dict()
    assert all(not torch.equal(moved[key], before[key]) for key in before) and moved
    assert isinstance(objective, TaughtObjective) == any(key.startswith("teacher.") for key in moved)


def run(name: str, out: Path, **options: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    network = ToyNetwork()
    train(network, ToyRelation(), build(name), CONFIG, out=out, **options)
    return network.state_dict(), load(out / "checkpoint.pt").objective


@pytest.mark.parametrize("name", LEARNING)
def test_stopped_and_resumed_equals_uninterrupted(name: str, tmp_path: Path) -> None:
    whole = run(name, tmp_path / "whole")
    with pytest.raises(StoppedError):
        run(name, tmp_path / "parts", progress=StopAt(7))
    assert load(tmp_path / "parts" / "checkpoint.pt").step == 5
    parts = run(name, tmp_path / "parts", resume=True)
    for one, other in zip(whole, parts, strict=True):
        assert list(one) == list(other) and one
        for key in one:
            assert torch.equal(one[key], other[key]), key


def test_the_queue_of_a_run_holds_the_teachers_keys() -> None:
    objective = MoCo(queue=3 * BATCH, symmetric=False, groups=1)
    config = TrainingConfig(steps=1, lr=1e-3, accelerator="cpu")
    network = ToyNetwork(dropout=0)
    first = Teacher(network)
    train(network, ToyRelation(), objective, config)
    batch = ToyRelation().batch(0)
    keys = first(torch.cat(batch[:2]), torch.arange(2 * BATCH))[BATCH:]
    torch.testing.assert_close(objective.queue[:BATCH], nn.functional.normalize(keys, dim=1))


def test_a_network_without_n_components_is_refused() -> None:
    network = ToyNetwork()
    del network.n_components
    with pytest.raises(EigenmapError, match=r"SimSiam.*n_components"):
        train(network, ToyRelation(), build("simsiam"), CONFIG)
