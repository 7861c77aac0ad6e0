from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from eigenmap.core.errors import EigenmapError
from eigenmap.training.config import TrainingConfig
from eigenmap.training.lamb import LAMB
from eigenmap.training.optim import LARS, build_optimizer, parameter_groups, schedule, set_rates
from tests.training.toys import ToyNetwork

Array = np.ndarray


def lars_reference(w: Array, g: Array, v: Array, lr: float, decay: float, adapt: bool) -> tuple[Array, Array]:
    """LARS from its equation, one parameter at a time."""
    if adapt:
        g = g + decay * w
        norm_w, norm_g = math.sqrt(float((w * w).sum())), math.sqrt(float((g * g).sum()))
        if norm_w > 0 and norm_g > 0:
            g = 0.001 * norm_w / norm_g * g
    v = 0.9 * v + g
    return w - lr * v, v


def test_lars_equals_the_slow_reference() -> None:
    torch.manual_seed(0)
    network = nn.ModuleDict({"encoder": nn.Linear(5, 4), "projector": nn.Linear(4, 3)}).double()
    nn.init.zeros_(network["projector"].weight)  # a layer of norm zero is not adapted
    groups = parameter_groups(network, lr=0.5, weight_decay=0.1, projector_lr_scale=0.2)
    optimizer = LARS(groups, lr=0.5)
    weights = {name: p.detach().numpy().copy() for name, p in network.named_parameters()}
    velocities = {name: np.zeros_like(w) for name, w in weights.items()}
    for step in range(4):
        set_rates(optimizer, schedule(step, 4))
        for name, p in network.named_parameters():
            p.grad = torch.randn_like(p)
            lr = 0.5 * schedule(step, 4) * (0.2 if name.startswith("projector") else 1.0)
            weights[name], velocities[name] = lars_reference(
                weights[name], p.grad.numpy(), velocities[name], lr, decay=0.1, adapt=p.ndim > 1
            )
        optimizer.step()
        for name, p in network.named_parameters():
            np.testing.assert_allclose(p.detach().numpy(), weights[name], rtol=1e-12)


def test_lars_returns_the_closure_and_leaves_parameters_without_gradient() -> None:
    a, b = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))

    def closure() -> float:
        loss = a.sum()
        loss.backward()
        return loss.item()

    assert LARS([a, b], lr=1.0).step(closure) == 4.0
    assert torch.equal(b, torch.ones(2, 2)) and not torch.equal(a, b)


@pytest.mark.parametrize(
    ("optimizer", "decay_moves"), [("adamw", 0.1 * 0.5), ("sgd", 0.1 * 0.5), ("lars", 0.1 * 1e-3), ("lamb", 0.1)]
)
def test_only_matrices_decay(optimizer: str, decay_moves: float) -> None:
    network = ToyNetwork()
    config = TrainingConfig(steps=1, optimizer=optimizer, lr=0.1, weight_decay=0.5)
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    for p in network.parameters():
        p.grad = torch.zeros_like(p)
    build_optimizer(network, config).step()
    for name, p in network.named_parameters():
        factor = 1 - decay_moves if p.ndim > 1 else 1.0
        torch.testing.assert_close(p.detach(), factor * before[name], rtol=1e-5, atol=1e-7)


def test_groups_have_names_and_every_parameter_once() -> None:
    network = ToyNetwork()
    groups = parameter_groups(network, lr=1.0, weight_decay=0.1, projector_lr_scale=3.0)
    assert {group["name"]: (len(group["params"]), group["base_lr"], group["weight_decay"]) for group in groups} == {
        "encoder weights": (1, 1.0, 0.1),
        "encoder biases and norms": (3, 1.0, 0.0),
        "projector weights": (1, 3.0, 0.1),
        "projector biases and norms": (1, 3.0, 0.0),
    }
    network.encoder.requires_grad_(False)
    frozen = parameter_groups(network, lr=1.0, weight_decay=0.1)
    assert [group["name"] for group in frozen] == ["projector weights", "projector biases and norms"]
    network.requires_grad_(False)
    with pytest.raises(EigenmapError, match="parameters"):
        parameter_groups(network, lr=1.0, weight_decay=0.1)
    with pytest.raises(EigenmapError, match="no `projector`"):
        parameter_groups(nn.Linear(2, 2), lr=1.0, weight_decay=0.1, projector_lr_scale=0.5)


def test_schedule_warms_up_then_follows_the_cosine() -> None:
    steps, warmup, final = 50, 10, 0.1
    values = [schedule(step, steps, warmup, final) for step in range(steps)]
    assert values[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    for step in range(10, 50):
        # The cosine by the addition theorem, in small steps of the angle.
        turn = complex(math.cos(math.pi / 40), math.sin(math.pi / 40)) ** (step - 10)
        assert values[step] == pytest.approx(0.1 + 0.9 * (1 + turn.real) / 2)
    assert max(values) == 1.0 == values[9] == values[10]
    assert schedule(50, steps, warmup, final) == pytest.approx(final)
    assert schedule(3, 4, warmup_steps=4) == 1.0


def test_other_decays_are_linear_or_begin_late() -> None:
    values = {name: [schedule(step, 20, 10, 0.2, name) for step in range(21)] for name in ("linear", "late")}
    for decayed in values.values():
        assert decayed[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
        assert decayed[20] == pytest.approx(0.2)
    assert values["linear"][10:] == pytest.approx([1 - 0.08 * step for step in range(11)])
    assert values["late"][10:19] == pytest.approx([1.0] * 9) and values["late"][19] == pytest.approx(0.6)


def test_lamb_is_built_by_name() -> None:
    assert isinstance(build_optimizer(ToyNetwork(), TrainingConfig(steps=1, optimizer="lamb", lr=0.01)), LAMB)
