from __future__ import annotations

import torch
from torch import nn

from eigenmap.training.clipping import FLOOR, clip_relative_


def test_each_unit_is_clipped_to_a_share_of_its_weights() -> None:
    generator = torch.Generator().manual_seed(0)
    conv = nn.Parameter(torch.randn(4, 3, 2, 2, generator=generator))
    conv.grad = torch.randn(4, 3, 2, 2, generator=generator)
    conv.grad[2] *= 1e-3  # this unit is below the limit
    before = conv.grad.clone()
    clip_relative_([conv], 0.1)
    assert conv.grad is not None
    for unit in range(4):
        w, g = float(conv[unit].detach().norm()), float(before[unit].norm())
        expected = before[unit] * (0.1 * w / g if g > 0.1 * w else 1.0)
        torch.testing.assert_close(conv.grad[unit], expected)
    assert torch.equal(conv.grad[2], before[2])


def test_a_unit_at_zero_can_move_and_a_zero_gradient_stays_zero() -> None:
    w = nn.Parameter(torch.zeros(2, 3))
    w.grad = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    clip_relative_([w], 0.5)
    torch.testing.assert_close(w.grad, torch.tensor([[0.5 * FLOOR, 0.0, 0.0], [0.0, 0.0, 0.0]]))


def test_biases_and_parameters_without_gradient_are_left_alone() -> None:
    bias, unused = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2, 2))
    bias.grad = torch.full((3,), 100.0)
    clip_relative_([bias, unused], 0.01)
    assert torch.equal(bias.grad, torch.full((3,), 100.0)) and unused.grad is None
