"""A thin encoder with the stages of a ResNet, for tests that train."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from eigenmap.networks import ResNet


class Thin(nn.Module):
    """Strides 2, 1, 2, 2 and 2; 8 to 64 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.relu, self.maxpool = nn.ReLU(), nn.Identity()
        self.layer1, self.layer2 = self._stage(8, 8, 1), self._stage(8, 16, 2)
        self.layer3, self.layer4 = self._stage(16, 32, 2), self._stage(32, 64, 2)
        self.out_features = 64

    @staticmethod
    def _stage(before: int, after: int, stride: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer1(self.relu(self.bn1(self.conv1(x))))
        return self.layer4(self.layer3(self.layer2(x))).mean((2, 3))


def thin_encoder(seed: int = 0) -> ResNet:
    torch.manual_seed(seed)
    return cast(ResNet, Thin())
