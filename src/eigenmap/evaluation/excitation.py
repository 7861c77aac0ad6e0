r"""Images that excite a feature: items with its largest and smallest values, and images synthesised for it.

    values = model.encode(images, weighting="none", normalize=False)
    extremes(values, top=10)                          # rows of the most and the least exciting items, by feature
    made = excite(model, features=range(8))           # images from noise, (8, channels, size, size) uint8

An image is found by gradient ascent on the ordered feature f_j, as in the appendix of Deng et al. [1]: with z the free
image, G_sigma a Gaussian blur of 7 x 7 pixels and s = +1 or -1 (the sign of an eigenfunction is arbitrary),

    max_z  s f_j(G_sigma(sigmoid(z))),    Adam, rate 0.1 along a cosine to 0, sigma from 4 to 2

The blur suppresses the fine noise to which networks also respond; decreasing it lets details appear late.

[1] Neural Eigenfunctions Are Structured Representation Learners, https://arxiv.org/abs/2210.12637
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.model import Eigenmap
from eigenmap.networks import code_rows

STEPS = 5000
RATE = 0.1
SIGMAS = (4.0, 2.0)
WINDOW = 7
"""Side of the blur window in pixels."""


class Extremes(NamedTuple):
    """Rows of items, one line per feature, most extreme first."""

    most: npt.NDArray[np.int64]
    least: npt.NDArray[np.int64]


def extremes(values: npt.NDArray[Any], top: int = 10) -> Extremes:
    """Return the `top` items with the largest and smallest value of each column; equal values by row.

    >>> extremes(np.array([[0.1], [0.7], [0.3]]), top=2)
    Extremes(most=array([[1, 2]]), least=array([[0, 2]]))
    """
    if values.ndim != 2 or len(values) == 0:
        raise EigenmapError("There are no items to search: give a matrix of values with at least one row.")
    top = whole_number(top, "top")
    most, least = (np.argsort(sign * values, axis=0, kind="stable")[:top].T for sign in (-1, 1))
    return Extremes(most, least)


@dataclass(frozen=True)
class Excited:
    """Synthesised images, and the feature value that each reached."""

    pixels: Tensor
    """(n, channels, size, size) uint8."""
    values: Tensor
    """(n,) values measured on the images after rounding to 8 bits."""


def excite(
    model: Eigenmap,
    features: Sequence[int],
    *,
    sign: int = 1,
    steps: int = STEPS,
    rate: float = RATE,
    sigmas: tuple[float, float] = SIGMAS,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
    values_of: Callable[[Eigenmap, Tensor, Sequence[int]], Tensor] | None = None,
) -> Excited:
    """Synthesise images from noise that excite ordered features (counted from 0), one each, all at once.

    Args:
        model: a model of images.
        features: feature numbers, each below `model.n_components`.
        sign: 1 for the largest value, -1 for the smallest.
        steps: steps of Adam; the schedules of rate and blur cover all of them, so fewer give a rougher picture.
        rate: initial learning rate.
        sigmas: first and last standard deviation of the blur in pixels; it decreases linearly.
        seed: seed of the noise; the image of a feature does not depend on the other features.
        progress: called as `progress(done, total)` after every step.
        values_of: function to maximise instead of the ordered features; called with model, images in [0, 1], features.

    """
    measure = values_of or ordered_features
    chosen = [whole_number(feature, "feature", 0, model.n_components - 1) for feature in features]
    steps = whole_number(steps, "steps")
    z = torch.stack([_noise(model, feature, seed) for feature in chosen]).to(model.device).requires_grad_()
    optimizer = torch.optim.Adam([z], lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    frozen = [parameter for parameter in model.network.parameters() if parameter.requires_grad]
    for parameter in frozen:  # only the image is optimised
        parameter.requires_grad_(False)
    try:
        for step in range(steps):
            sigma = sigmas[0] + (sigmas[1] - sigmas[0]) * step / max(1, steps - 1)
            optimizer.zero_grad(set_to_none=True)
            gain = measure(model, blurred(torch.sigmoid(z), sigma), chosen)
            (-sign * gain.sum()).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            if progress is not None:
                progress(step + 1, steps)
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)
    with torch.no_grad():
        pixels = blurred(torch.sigmoid(z), sigmas[1]).mul(255).round().to(torch.uint8)
        values = measure(model, pixels.float() / 255, chosen)
    return Excited(pixels.cpu(), values.cpu())


def ordered_features(model: Eigenmap, images: Tensor, features: Sequence[int]) -> Tensor:
    """Return f_j of the j-th of `features` for the j-th image in [0, 1], differentiable, unweighted, not normalised."""
    settings = model.image.standardisation
    mean, std = (
        torch.tensor(numbers, device=images.device)[:, None, None] for numbers in (settings.mean, settings.std)
    )
    outputs, psi = model.network((images - mean) / std)
    raw = code_rows(outputs, psi, model.source)
    alignment = model.alignment
    rotation = alignment.rotation[:, list(features)].to(raw)
    return ((raw - alignment.mean.to(raw)) * rotation.T).sum(1)


def blurred(images: Tensor, sigma: float) -> Tensor:
    """Blur images (B, C, H, W) with a Gaussian window of 7 x 7 pixels, mirrored at the border."""
    place = torch.arange(WINDOW, device=images.device, dtype=images.dtype) - WINDOW // 2
    window = torch.exp(-(place**2) / (2 * sigma**2))
    window = (window / window.sum()).expand(images.shape[1], 1, 1, WINDOW)
    rim = WINDOW // 2
    padded = functional.pad(images, (rim, rim, rim, rim), mode="reflect")
    rows = functional.conv2d(padded, window, groups=images.shape[1])
    return functional.conv2d(rows, window.transpose(2, 3), groups=images.shape[1])


def _noise(model: Eigenmap, feature: int, seed: int) -> Tensor:
    """Return the initial image, normal noise that depends on the feature."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + feature)
    image = model.image
    return torch.randn(image.channels, image.view_size, image.view_size, generator=generator)
