"""Residual networks for images, with the parameter names of torchvision.

The names (`conv1.weight`, `layer3.1.bn2.running_var`, ...) are an interface: a checkpoint published for torchvision's
ResNet-18, 34 or 50 loads here with `strict=True` once its classifier `fc.*` is removed.

References:
    [1] He, Zhang, Ren, Sun. Deep residual learning for image recognition. CVPR 2016.
    [2] Goyal et al. Accurate, large minibatch SGD: training ImageNet in 1 hour. 2017. (zero-initialised
        gamma, and the stride of a bottleneck in its 3x3 convolution)

"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

Stem = Literal["imagenet", "medium", "small"]


def _conv(in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, bias=False)


def _shortcut(in_channels: int, out_channels: int, stride: int) -> nn.Sequential | None:
    """Build a projection if the shape changes, else None: the identity has no parameters and no name."""
    if stride == 1 and in_channels == out_channels:
        return None
    return nn.Sequential(_conv(in_channels, out_channels, 1, stride), nn.BatchNorm2d(out_channels))


class BasicBlock(nn.Module):
    """x -> relu(x + bn(conv3x3(relu(bn(conv3x3(x)))))), the block of ResNet-18 and 34."""

    expansion = 1

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv(in_channels, channels, 3, stride)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = _conv(channels, channels, 3)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = _shortcut(in_channels, channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Add the residual branch to x."""
        shortcut = x if self.downsample is None else self.downsample(x)
        residual = self.relu(self.bn1(self.conv1(x)))
        residual = self.bn2(self.conv2(residual))
        out: Tensor = self.relu(residual + shortcut)
        return out


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions around a narrow middle, the block of ResNet-50."""

    expansion = 4

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        wide = channels * self.expansion
        self.conv1 = _conv(in_channels, channels, 1)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = _conv(channels, channels, 3, stride)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = _conv(channels, wide, 1)
        self.bn3 = nn.BatchNorm2d(wide)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(in_channels, wide, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Add the residual branch to x."""
        shortcut = x if self.downsample is None else self.downsample(x)
        residual = self.relu(self.bn1(self.conv1(x)))
        residual = self.relu(self.bn2(self.conv2(residual)))
        residual = self.bn3(self.conv3(residual))
        out: Tensor = self.relu(residual + shortcut)
        return out


class ResNet(nn.Module):
    """Four stages of residual blocks and global average pooling; no classifier.

    Args:
        block: `BasicBlock` or `Bottleneck`.
        depths: number of blocks per stage, e.g. (2, 2, 2, 2) for ResNet-18.
        channels: number of image channels.
        stem: "imagenet" is the 7x7 convolution of stride 2 and the max-pool of [1]; "small" is a 3x3
            convolution of stride 1 without pooling, for images of a few dozen pixels; "medium" is the same with
            stride 2, at a quarter of the cost, for images of about 64 pixels.

    Example:
        >>> encoder = resnet18(stem="small")
        >>> encoder(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 512])

    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: tuple[int, int, int, int],
        channels: int = 3,
        stem: Stem = "imagenet",
    ) -> None:
        super().__init__()
        large = stem == "imagenet"
        self.conv1 = _conv(channels, 64, 7 if large else 3, stride=1 if stem == "small" else 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if large else nn.Identity()
        self.layer1 = _stage(block, 64, 64, depths[0], stride=1)
        self.layer2 = _stage(block, 64 * block.expansion, 128, depths[1], stride=2)
        self.layer3 = _stage(block, 128 * block.expansion, 256, depths[2], stride=2)
        self.layer4 = _stage(block, 256 * block.expansion, 512, depths[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.out_features = 512 * block.expansion
        _initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (B, channels, H, W) to features (B, out_features)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        features: Tensor = self.avgpool(x).flatten(1)
        return features


def _stage(
    block: type[BasicBlock] | type[Bottleneck], in_channels: int, channels: int, depth: int, stride: int
) -> nn.Sequential:
    first = block(in_channels, channels, stride)
    rest = [block(channels * block.expansion, channels, 1) for _ in range(depth - 1)]
    return nn.Sequential(first, *rest)


def _initialise(network: nn.Module) -> None:
    """Initialise as in He et al.; residual branches start at zero, so that a block starts as its shortcut [2]."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    for module in network.modules():
        if isinstance(module, Bottleneck):
            nn.init.zeros_(module.bn3.weight)
        elif isinstance(module, BasicBlock):
            nn.init.zeros_(module.bn2.weight)


def resnet18(channels: int = 3, stem: Stem = "imagenet") -> ResNet:
    """ResNet-18: 11.2 million parameters, 512 features."""
    return ResNet(BasicBlock, (2, 2, 2, 2), channels, stem)


def resnet34(channels: int = 3, stem: Stem = "imagenet") -> ResNet:
    """ResNet-34: 21.3 million parameters, 512 features."""
    return ResNet(BasicBlock, (3, 4, 6, 3), channels, stem)


def resnet50(channels: int = 3, stem: Stem = "imagenet") -> ResNet:
    """ResNet-50: 23.5 million parameters, 2,048 features."""
    return ResNet(Bottleneck, (3, 4, 6, 3), channels, stem)
