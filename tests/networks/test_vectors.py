"""The residual head: where it starts, what it leaves out, and what it makes of features that hardly vary."""

from __future__ import annotations

import torch

from eigenmap.networks.vectors import ResidualHead


def started(deviation: torch.Tensor) -> ResidualHead:
    torch.manual_seed(0)
    head = ResidualHead(6, 3, 32)
    head.start_from(torch.ones(6), torch.randn(6, 3), deviation)
    return head


def test_it_starts_at_the_linear_map() -> None:
    torch.manual_seed(0)
    rotation, x = torch.randn(6, 3), torch.randn(10, 6)
    head = ResidualHead(6, 3, 32)
    head.start_from(torch.ones(6), rotation, torch.ones(6))
    torch.testing.assert_close(head(x), (x - 1) @ rotation)


def test_dropout_changes_steps_of_training_and_nothing_else() -> None:
    head, x = started(torch.ones(6)), torch.randn(10, 6)
    torch.nn.init.normal_(head.correction.weight)
    names = set(head.state_dict())
    plain = head.eval()(x)
    head.dropout.p = 0.5
    torch.testing.assert_close(head(x), plain)
    assert not torch.allclose(head.train()(x), plain) and set(head.state_dict()) == names


def test_a_feature_that_hardly_varies_is_not_blown_up() -> None:
    head = started(torch.tensor([1.0, 1.0, 1.0, 1.0, 1e-9, 0.0]))
    assert head.scale[4] < 20 and head.scale[5] == 0 and head.scale[0] == 1
