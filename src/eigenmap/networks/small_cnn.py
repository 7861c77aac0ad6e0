"""Small convolutional network that trains in minutes on a CPU."""

from __future__ import annotations

from torch import Tensor, nn


class SmallCNN(nn.Module):
    """Four 3x3 convolutions (32, 64, 128, 256 channels; strides 2, 2, 1, 2) and global average pooling.

    Each convolution is followed by BN and ReLU. Accepts images of any size, down to one pixel; returns 256 features.

    Example:
        >>> SmallCNN(channels=1)(torch.rand(8, 1, 28, 28)).shape
        torch.Size([8, 256])

    """

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.out_features = 256
        self.layers = nn.Sequential(
            _layer(channels, 32, stride=2),
            _layer(32, 64, stride=2),
            _layer(64, 128, stride=1),
            _layer(128, self.out_features, stride=2),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map images (B, channels, H, W) to features (B, 256)."""
        features: Tensor = self.layers(x).mean(dim=(2, 3))
        return features


def _layer(in_channels: int, out_channels: int, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(convolution, nn.BatchNorm2d(out_channels), nn.ReLU(inplace=True))
