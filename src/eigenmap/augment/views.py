"""Two random views of one image: the relation behind self-supervised learning on images.

    views = TwoViews("cifar", image_size=32)
    x, x_plus = views(pixels, torch.Generator().manual_seed(0))      # uint8 (B, C, H, W) -> floats (B, C, 32, 32)

Views are made from batches of uint8 pixels, on the device of the pixels, with different parameters for each image.
All randomness comes from one CPU generator, so a batch is the same on a CPU and, up to rounding, on a GPU.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor

from eigenmap.augment import pixels
from eigenmap.augment.draws import Draws, draw_views
from eigenmap.augment.policies import POLICIES, Augmentation, ViewPair, policy
from eigenmap.core.errors import EigenmapError

__all__ = [
    "IMAGENET_STANDARDISATION",
    "POLICIES",
    "Augmentation",
    "SmallCrops",
    "Standardisation",
    "TwoViews",
    "half_size",
    "plain_view",
    "policy",
    "view",
]

CROP_SCALE = (0.05, 0.3)
"""Smallest and largest area of a small crop, as a share of the image."""

# A CPU processes this many values at a time (0.5 MB): pieces that stay in its cache are up to twice as fast as
# full batches.
_CACHED_VALUES = 2**17


@dataclass(frozen=True)
class Standardisation:
    """x -> (x - mean) / std, per channel or, with one number each, equally for all channels.

    The default suits networks trained from scratch, whose BatchNorm does the rest. `dataclasses.asdict` gives a form
    for JSON, and `Standardisation(**that)` restores it.
    """

    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.25,)

    def __post_init__(self) -> None:
        """Check the numbers, and turn lists (from JSON) back into tuples."""
        object.__setattr__(self, "mean", tuple(float(value) for value in self.mean))
        object.__setattr__(self, "std", tuple(float(value) for value in self.std))
        if len(self.mean) != len(self.std) or not self.mean or min(self.std) <= 0:
            raise EigenmapError("A standardisation needs as many means as positive standard deviations.")

    @property
    def channels(self) -> int | None:
        """Required number of channels; None for any."""
        return None if len(self.mean) == 1 else len(self.mean)

    def __call__(self, images: Tensor, out: Tensor | None = None) -> Tensor:
        """Standardise images (B, C, H, W) with values in [0, 1], into `out` or a new contiguous tensor."""
        channels = images.shape[1]
        if len(self.mean) not in (1, channels):
            raise EigenmapError(f"The standardisation is for {len(self.mean)} channels, the images have {channels}.")
        if out is None:
            out = torch.empty(images.shape, dtype=images.dtype, device=images.device)
        # Numbers rather than tensors, which would have to be copied to a GPU.
        if len(self.mean) == 1:
            return torch.sub(images, self.mean[0], out=out).div_(self.std[0])
        for channel, (mean, std) in enumerate(zip(self.mean, self.std, strict=True)):
            torch.sub(images[:, channel], mean, out=out[:, channel]).div_(std)
        return out


IMAGENET_STANDARDISATION = Standardisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Standardisation that encoders pretrained on ImageNet expect."""


class TwoViews:
    """Makes pairs of random views (x, x_plus) of images.

    Args:
        views: a name from `POLICIES`, such as "cifar", or two `Augmentation`s.
        image_size: side of the views in pixels; the images may have any size.
        standardisation: applied last, and by `plain_view`.
        plain_share: side of the central square in the plain view, as a share of the shorter side.

    Example:
        >>> views = TwoViews("cifar", image_size=32)
        >>> x, x_plus = views(torch.randint(256, (8, 3, 40, 40), dtype=torch.uint8), torch.Generator())
        >>> x.shape
        torch.Size([8, 3, 32, 32])

    """

    def __init__(
        self,
        views: str | ViewPair,
        image_size: int,
        standardisation: Standardisation | None = None,
        plain_share: float = 1.0,
    ) -> None:
        self.first, self.second = policy(views) if isinstance(views, str) else views
        if self.first.interpolation != self.second.interpolation:
            raise EigenmapError("The two views must have the same interpolation.")
        if image_size < 1:
            raise EigenmapError(f"image_size must be at least 1 pixel, not {image_size}.")
        self.image_size = image_size
        self.standardisation = standardisation or Standardisation()
        self.plain_share = plain_share
        self._render = _render

    def compiled(self) -> TwoViews:
        """Return the same views with fused pixel operations, for a GPU that would otherwise wait for its host.

        Every batch size is compiled separately, so this is meant for training, where there is only one.
        """
        views = copy.copy(self)
        views._render = torch.compile(_render, dynamic=False)
        return views

    def __call__(
        self, images: Tensor, generator: torch.Generator, aspects: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Make two random views of images (B, C, H, W) of type uint8; see `draw_views` about `aspects` (B,)."""
        shape = (images.shape[1], images.shape[2], images.shape[3])
        return self.apply(images, self.draw(len(images), shape, generator, aspects))

    def draw(
        self,
        count: int,
        image_shape: tuple[int, int, int],
        generator: torch.Generator,
        aspects: Tensor | None = None,
    ) -> tuple[Draws, Draws]:
        """Draw the parameters of both views of `count` images of shape (channels, height, width)."""
        if aspects is not None and (self.first.rotation or self.second.rotation):
            raise EigenmapError("Crops of uncut images cannot be rotated: choose views without rotation.")
        shapes = None if aspects is None else aspects.numpy()
        return (
            draw_views(self.first, count, image_shape, generator, shapes),
            draw_views(self.second, count, image_shape, generator, shapes),
        )

    def apply(self, images: Tensor, draws: tuple[Draws, Draws]) -> tuple[Tensor, Tensor]:
        """Make the two views of uint8 images that `draws` describe; the same draws give the same views."""
        # Both views go through every operation together, which halves the kernel launches.
        both = draws[0].join(draws[1]).to(images.device)
        out = self._render(torch.cat([images, images]), both, self.image_size, self.standardisation)
        x, x_plus = out.chunk(2)
        return x, x_plus

    def plain(self, images: Tensor, aspects: Tensor | None = None) -> Tensor:
        """Make the deterministic view on which a trained network is evaluated."""
        return plain_view(images, self.image_size, self.standardisation, self.plain_share, aspects)


class SmallCrops:
    """Makes several small crops of every image, in the colours of the second view, at half its size.

    A crop is related to both views of its image (Caron et al., "Unsupervised learning of visual features by contrasting
    cluster assignments", 2020).

        crops = SmallCrops(TwoViews("cifar", image_size=32), count=4)
        crops.apply(images, crops.draw(len(images), (3, 32, 32), torch.Generator()))      # (4, B, 3, 16, 16)
    """

    def __init__(self, views: TwoViews, count: int) -> None:
        self.settings = replace(views.second, scale=CROP_SCALE)
        self.size, self.standardisation, self.count = half_size(views.image_size), views.standardisation, count
        self._render = views._render

    def draw(
        self,
        count: int,
        image_shape: tuple[int, int, int],
        generator: torch.Generator,
        aspects: Tensor | None = None,
    ) -> list[Draws]:
        """Draw the parameters of every crop of `count` images of shape (channels, height, width)."""
        shapes = None if aspects is None else aspects.numpy()
        return [draw_views(self.settings, count, image_shape, generator, shapes) for _ in range(self.count)]

    def apply(self, images: Tensor, draws: Sequence[Draws]) -> Tensor:
        """Make the crops (count, B, C, size, size) of uint8 images that `draws` describe."""
        every = reduce(Draws.join, draws).to(images.device)
        made = self._render(torch.cat([images] * len(draws)), every, self.size, self.standardisation)
        return made.view(len(draws), len(images), *made.shape[1:])


def half_size(image_size: int) -> int:
    """Return the side of small crops, for views of this side."""
    return max(1, image_size // 2)


def view(
    images: Tensor,
    settings: Augmentation,
    size: int,
    generator: torch.Generator,
    standardisation: Standardisation | None = None,
) -> Tensor:
    """Make one random view (B, C, size, size) of images (B, C, H, W) of type uint8.

    Example:
        >>> view(pixels, Augmentation(scale=(0.2, 1.0), flip=0.5), 32, torch.Generator().manual_seed(0))

    """
    draws = draw_views(settings, len(images), (images.shape[1], images.shape[2], images.shape[3]), generator)
    return _render(images, draws.to(images.device), size, standardisation or Standardisation())


def plain_view(
    images: Tensor,
    size: int,
    standardisation: Standardisation | None = None,
    share: float = 1.0,
    aspects: Tensor | None = None,
) -> Tensor:
    """Make the deterministic view of uint8 images: a central square, resized, standardised.

    The square is as large as possible, times `share`. With `aspects` (B,), the images are pictures of this width /
    height that were squeezed into squares.
    """
    x = _to_unit_range(images)
    height, width = images.shape[2:]
    if (height, width) != (size, size) or share != 1 or aspects is not None:
        if aspects is None:
            side = share * min(height, width)
            boxes = _central_boxes(x, side / height, side / width)
        else:
            shape = aspects.to(x.device)
            boxes = _central_boxes(x, share * shape.clamp(max=1), share / shape.clamp(min=1))
        with torch.autocast(images.device.type, enabled=False):
            x = pixels.crop(x, boxes, (size, size), "bilinear")
    return (standardisation or Standardisation())(x)


def _to_unit_range(images: Tensor) -> Tensor:
    if images.dtype != torch.uint8 or images.ndim != 4:
        raise EigenmapError(
            f"Images must be a uint8 tensor (N, C, H, W), not {images.dtype} of shape {tuple(images.shape)}."
        )
    return images.float().div_(255)


@torch.no_grad()
def _render(images: Tensor, draws: Draws, size: int, standardisation: Standardisation) -> Tensor:
    """Apply the operations of `draws` and standardise: uint8 (B, C, H, W) -> float (B, C, size, size)."""
    batch, channels = images.shape[:2]
    out = torch.empty(batch, channels, size, size, device=images.device)
    rows = max(1, _CACHED_VALUES // (channels * size * size)) if images.device.type == "cpu" else max(1, batch)
    # Half precision would lose visible grey levels.
    with torch.autocast(images.device.type, enabled=False):
        for start in range(0, batch, rows):
            part = slice(start, start + rows)
            x = _cut(_to_unit_range(images[part]), draws[part], size)
            standardisation(_recolour(x, draws[part], size), out=out[part])
    return out


def _cut(x: Tensor, draws: Draws, size: int) -> Tensor:
    """Crop, mirror, rotate and resize."""
    steps = draws.steps
    if not steps.rotate:
        return pixels.crop(x, draws.boxes, (size, size), steps.interpolation)
    height, width = x.shape[2:]
    # Sampling a rotated box has no low-pass filter: remove detail that the tightest crop cannot show first.
    finest = math.ceil(size / math.sqrt(steps.tightest))
    if min(height, width) > finest:
        shrink = finest / min(height, width)
        smaller = (round(height * shrink), round(width * shrink))
        x = pixels.crop(x, _central_boxes(x, 1, 1), smaller, steps.interpolation)
    return pixels.rotated_crop(x, draws.boxes, draws.degrees, size, steps.interpolation)


def _recolour(x: Tensor, draws: Draws, size: int) -> Tensor:
    """Jitter, greyscale, blur and solarise, each only if some image of the batch may need it."""
    steps = draws.steps
    for position in range(steps.blends + 1):
        if steps.hue_after == position:
            x = pixels.turn_hue(x, draws.turns)
        if position < steps.blends:
            x = pixels.blend(x, *draws.blend(position))
    if steps.grey:
        x = pixels.to_grey(x, draws.grey)
    if steps.blur:
        x = pixels.blur(x, draws.sigma * size)
    if steps.solarise:
        x = pixels.solarise(x, draws.threshold)
    return x


def _central_boxes(x: Tensor, height: float | Tensor, width: float | Tensor) -> Tensor:
    """Return one central box per image with these shares of its sides, made without a copy from the host."""
    boxes = x.new_full((len(x), 4), 0.5)
    boxes[:, 2] = height
    boxes[:, 3] = width
    return boxes
