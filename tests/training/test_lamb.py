from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from eigenmap.training.lamb import LAMB
from eigenmap.training.optim import parameter_groups, schedule, set_rates

Array = np.ndarray


def norm(x: Array) -> float:
    return math.sqrt(float((x * x).sum()))


def reference(w: Array, g: Array, m: Array, v: Array, t: int, lr: float, adapt: bool) -> tuple[Array, Array, Array]:
    """LAMB from its equation, one parameter at a time."""
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    r = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6)
    if adapt:
        r = r + 0.1 * w
        r = norm(w) / norm(r) * r if norm(w) > 0 else r
    return w - lr * r, m, v


def test_lamb_equals_the_slow_reference() -> None:
    torch.manual_seed(0)
    network = nn.ModuleDict({"encoder": nn.Linear(5, 4), "projector": nn.Linear(4, 3)}).double()
    nn.init.zeros_(network["projector"].weight)  # a layer of norm zero is not adapted
    optimizer = LAMB(parameter_groups(network, lr=0.05, weight_decay=0.1), lr=0.05)
    state = {name: (p.detach().numpy().copy(), 0.0 * p.detach().numpy()) for name, p in network.named_parameters()}
    values = {name: (w, zero, zero) for name, (w, zero) in state.items()}
    for step in range(4):
        set_rates(optimizer, schedule(step, 4))
        for name, p in network.named_parameters():
            p.grad = torch.randn_like(p)
            w, m, v = values[name]
            values[name] = reference(w, p.grad.numpy(), m, v, step + 1, 0.05 * schedule(step, 4), p.ndim > 1)
        optimizer.step()
        for name, p in network.named_parameters():
            np.testing.assert_allclose(p.detach().numpy(), values[name][0], rtol=1e-10)


def test_a_step_is_as_long_as_the_rate_times_the_weights_whatever_the_gradient() -> None:
    for size in (1e-3, 1.0, 1e3):
        w = nn.Parameter(torch.randn(6, 5, generator=torch.Generator().manual_seed(0)))
        before = w.detach().clone()
        w.grad = size * torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
        LAMB([w], lr=0.01).step()
        torch.testing.assert_close((w - before).norm(), 0.01 * before.norm(), rtol=1e-4, atol=0)


def test_lamb_returns_the_closure_and_resumes_from_its_state() -> None:
    a, b = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))

    def closure() -> float:
        loss = (a * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum()
        loss.backward()
        return loss.item()

    first = LAMB([a, b], lr=0.1)
    assert first.step(closure) == 10.0
    assert torch.equal(b, torch.ones(2, 2)) and not torch.equal(a, b)
    c = nn.Parameter(a.detach().clone())
    second = LAMB([c, nn.Parameter(b.detach().clone())], lr=0.1)
    second.load_state_dict(first.state_dict())
    c.grad = a.grad
    first.step()
    second.step()
    assert torch.equal(a, c)
