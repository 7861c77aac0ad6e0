"""Random parameters of a batch of views, drawn in advance on the CPU.

Drawing is separate from computing for three reasons: a GPU receives one small table per batch and is never waited for;
a CPU and a GPU given the same seed cut the same crops; and a slice of the table reproduces the views of a part of the
batch (one process's share, one chunk of a large batch).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenmap.augment.policies import Augmentation, Interpolation
from eigenmap.core.errors import EigenmapError
from eigenmap.loading.store import send

# Columns of the table. A blend is (factor, weight of grey, weight of mean grey).
_BOX = slice(0, 4)
_DEGREES = 4
_BLENDS = slice(5, 14)
_GREY, _TURNS, _SIGMA, _THRESHOLD = 14, 15, 16, 17

# Row of an image that stays unchanged.
_NEUTRAL = np.array([0.5, 0.5, 1.0, 1.0, 0.0, *3 * (1.0, 0.0, 0.0), 0.0, 0.0, 0.0, 2.0], dtype=np.float32)

# Boxes that do not fit into the image are drawn again, this many times, as in torchvision.
_ATTEMPTS = 10
_BLUR_REFERENCE_SIZE = 224

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Steps:
    """Operations applied to the images of a batch; known without looking at a tensor.

    Attributes:
        interpolation: of the crop.
        tightest: smallest area of a crop, as a share of the image.
        rotate: whether any crop is rotated.
        blends: number of changes of brightness, contrast or saturation.
        hue_after: number of these after which the hue changes; None if it does not.
        grey: whether any image becomes grey.
        blur: whether any image is blurred.
        solarise: whether any image is solarised.

    """

    interpolation: Interpolation
    tightest: float
    rotate: bool
    blends: int
    hue_after: int | None
    grey: bool
    blur: bool
    solarise: bool

    def either(self, other: Steps) -> Steps:
        """Return the operations needed by a batch that contains images of both kinds."""
        if self.interpolation != other.interpolation:
            raise EigenmapError("Views made together must have the same interpolation.")
        return Steps(
            interpolation=self.interpolation,
            tightest=min(self.tightest, other.tightest),
            rotate=self.rotate or other.rotate,
            blends=max(self.blends, other.blends),
            hue_after=other.hue_after if self.hue_after is None else self.hue_after,
            grey=self.grey or other.grey,
            blur=self.blur or other.blur,
            solarise=self.solarise or other.solarise,
        )


@dataclass(frozen=True)
class Draws:
    """Parameters of B random views.

    Attributes:
        table: (B, 18) floats, one row per image; read it through the properties.
        steps: the operations, which determine the columns that matter.

    """

    table: Tensor
    steps: Steps

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, rows: slice) -> Draws:
        return Draws(self.table[rows], self.steps)

    def join(self, other: Draws) -> Draws:
        """Append the rows of another batch."""
        return Draws(torch.cat([self.table, other.table]), self.steps.either(other.steps))

    def to(self, device: torch.device) -> Draws:
        """Send the table to a device without waiting."""
        return Draws(send(self.table, device), self.steps)

    @property
    def boxes(self) -> Tensor:
        """(B, 4): vertical and horizontal centre, height and (negative: mirrored) width, as shares of the image."""
        return self.table[:, _BOX]

    @property
    def degrees(self) -> Tensor:
        """(B,) angles of rotation."""
        return self.table[:, _DEGREES]

    def blend(self, position: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the parameters of the brightness, contrast or saturation change at this position."""
        factor, grey, mean = self.table[:, _BLENDS][:, 3 * position : 3 * position + 3].unbind(1)
        return factor, grey, mean

    @property
    def grey(self) -> Tensor:
        """(B,): 1 where the image becomes grey, else 0."""
        return self.table[:, _GREY]

    @property
    def turns(self) -> Tensor:
        """(B,) changes of hue, in turns of the colour circle."""
        return self.table[:, _TURNS]

    @property
    def sigma(self) -> Tensor:
        """(B,) standard deviations of the blur, as shares of the side of the view; 0 for none."""
        return self.table[:, _SIGMA]

    @property
    def threshold(self) -> Tensor:
        """(B,) thresholds of solarisation; above 1 for none."""
        return self.table[:, _THRESHOLD]


def draw_views(
    settings: Augmentation,
    count: int,
    image_shape: tuple[int, int, int],
    generator: torch.Generator,
    aspects: Floats | None = None,
) -> Draws:
    """Draw the parameters of `count` random views of images of shape (channels, height, width).

    `aspects` (count,) are the width / height of pictures that were squeezed into that shape; crops then have their
    ratios in the original pictures.

    Colour jitter has a random order. Each image has its own order of brightness, contrast and saturation. The position
    of the hue change among them is random too but common to the batch, since it costs as much as the other three
    together. For every image, all 24 orders are still equally likely.

    Random numbers come from torch and are processed by NumPy, whose operations on a few hundred values are cheaper for
    the host; a slow host keeps a GPU waiting.
    """
    channels, height, width = image_shape
    colour = channels == 3
    table = np.tile(_NEUTRAL, (count, 1))
    uniform = iter(torch.rand(2 * _ATTEMPTS + 15, count, generator=generator).numpy())
    table[:, _BOX] = _boxes(settings, width / height if aspects is None else aspects, uniform)
    if settings.rotation:
        table[:, _DEGREES] = _between(-settings.rotation, settings.rotation, next(uniform))

    jittered = next(uniform) < settings.jitter
    changes = _blends(settings, colour) if settings.jitter else []
    if changes:
        table[:, _BLENDS][:, : 3 * len(changes)] = _ordered_blends(changes, jittered, uniform)
    hue = colour and settings.jitter > 0 and settings.hue > 0
    place = int(torch.randint(len(changes) + 1, (), generator=generator))
    if hue:
        table[:, _TURNS] = _between(-settings.hue, settings.hue, next(uniform)) * jittered
    if colour and settings.grey:
        table[:, _GREY] = next(uniform) < settings.grey
    if settings.blur:
        low, high = (sigma / _BLUR_REFERENCE_SIZE for sigma in settings.blur_sigma)
        table[:, _SIGMA] = _between(low, high, next(uniform)) * (next(uniform) < settings.blur)
    if settings.solarise:
        table[next(uniform) < settings.solarise, _THRESHOLD] = settings.solarise_threshold

    steps = Steps(
        interpolation=settings.interpolation,
        tightest=settings.scale[0],
        rotate=settings.rotation > 0,
        blends=len(changes),
        hue_after=place if hue else None,
        grey=colour and settings.grey > 0,
        blur=settings.blur > 0,
        solarise=settings.solarise > 0,
    )
    return Draws(torch.from_numpy(table), steps)


def _between(low: float, high: float, uniform: Floats) -> Floats:
    return low + (high - low) * uniform


def _boxes(settings: Augmentation, aspect: float | Floats, uniform: Iterator[Floats]) -> Floats:
    """Draw crops, uniform in area and log ratio: the first of ten boxes that fits, else the largest central one.

    Sides are shares of the image, so a box of ratio r (in pixels) has sides w / h = r / aspect.
    """
    area = _between(*settings.scale, np.stack([next(uniform) for _ in range(_ATTEMPTS)]))
    log_ratio = np.stack([next(uniform) for _ in range(_ATTEMPTS)])
    ratio = np.exp(_between(math.log(settings.ratio[0]), math.log(settings.ratio[1]), log_ratio)) / aspect
    widths, heights = np.sqrt(area * ratio), np.sqrt(area / ratio)
    fits = (widths <= 1) & (heights <= 1)
    first = fits.argmax(0), np.arange(fits.shape[1])
    found = fits[first]

    largest = np.clip(aspect, *settings.ratio, dtype=np.float32) / np.float32(aspect)
    width = np.where(found, widths[first], np.minimum(largest, 1))
    height = np.where(found, heights[first], np.minimum(1 / largest, 1))
    y = np.where(found, height / 2 + (1 - height) * next(uniform), 0.5)
    x = np.where(found, width / 2 + (1 - width) * next(uniform), 0.5)
    mirrored = np.where(next(uniform) < settings.flip, -width, width)
    return np.stack([y, x, height, mirrored], axis=1)


def _blends(settings: Augmentation, colour: bool) -> list[tuple[float, float, float]]:
    """Return strength, weight of grey and weight of mean grey of the enabled changes."""
    changes = [(settings.brightness, 0.0, 0.0), (settings.contrast, 0.0, 1.0)]
    if colour:
        changes.append((settings.saturation, 1.0, 0.0))
    return [change for change in changes if change[0] > 0]


def _ordered_blends(changes: list[tuple[float, float, float]], jittered: Flags, uniform: Iterator[Floats]) -> Floats:
    """Return (B, 3 n): the n changes of every image, each (factor, grey, mean), in the image's own order."""
    count = len(jittered)
    blends: Floats = np.empty((count, len(changes), 3), dtype=np.float32)
    for change, (strength, grey, mean) in enumerate(changes):
        factor = _between(max(0.0, 1 - strength), 1 + strength, next(uniform))
        blends[:, change, 0] = np.where(jittered, factor, 1.0)
        blends[:, change, 1:] = grey, mean
    orders = np.array(list(permutations(range(len(changes)))))
    order = orders[(next(uniform) * len(orders)).astype(np.int64)]
    ordered: Floats = np.take_along_axis(blends, order[:, :, None], axis=1)
    return ordered.reshape(count, 3 * len(changes))
