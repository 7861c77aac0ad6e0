from __future__ import annotations

import pytest
import torch
from torch import nn

from eigenmap.networks import SmallCNN, build_encoder


@pytest.mark.parametrize("size", [1, 8, 28, 32, 65, 256])
@pytest.mark.parametrize("channels", [1, 3])
def test_any_size(size: int, channels: int) -> None:
    assert build_encoder("small-cnn", channels, size)(torch.rand(2, channels, size, size)).shape == (2, 256)


def test_layers_are_those_of_the_recipe() -> None:
    convolutions = [module for module in SmallCNN(1).modules() if isinstance(module, nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == [32, 64, 128, 256]
    assert [c.stride[0] for c in convolutions] == [2, 2, 1, 2]
    assert SmallCNN(1)(torch.rand(3, 1, 28, 28)).shape == (3, SmallCNN(1).out_features)


def test_gradients_reach_every_parameter() -> None:
    torch.manual_seed(0)
    encoder = SmallCNN(3)
    encoder(torch.rand(4, 3, 16, 16)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in encoder.parameters())
