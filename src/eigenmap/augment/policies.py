"""Augmentation settings, and pairs of views from the literature."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from eigenmap.core.errors import EigenmapError

Interpolation = Literal["bilinear", "bicubic"]


@dataclass(frozen=True)
class Augmentation:
    """Settings of one random view; the defaults change only the size.

    Operations are applied in this order: crop with mirror and rotation, colour jitter, greyscale, blur, solarisation.
    Saturation, hue and greyscale leave images without three channels unchanged.

    Attributes:
        scale: smallest and largest area of the crop, as a share of the image.
        ratio: smallest and largest width / height of the crop; the logarithm is uniform.
        interpolation: "bilinear" or "bicubic".
        flip: probability of a mirror image.
        rotation: largest angle in degrees, in both directions.
        jitter: probability that the four colour settings below apply.
        brightness: b scales the pixels by a factor in [1 - b, 1 + b].
        contrast: the same for the distance from the image's mean grey value.
        saturation: the same for the distance from the pixel's own grey value.
        hue: h turns the hue by a share of the colour circle in [-h, h].
        grey: probability of greyscale.
        blur: probability of a Gaussian blur.
        blur_sigma: smallest and largest standard deviation of the blur, in pixels of a 224-pixel view, so that it means
            the same at every image size.
        solarise: probability that pixels above the threshold are inverted.
        solarise_threshold: threshold of solarisation, between 0 and 1.

    Example:
        >>> Augmentation(scale=(0.2, 1.0), flip=0.5, jitter=0.8, brightness=0.4)

    """

    scale: tuple[float, float] = (1.0, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: Interpolation = "bicubic"
    flip: float = 0.0
    rotation: float = 0.0
    jitter: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0
    grey: float = 0.0
    blur: float = 0.0
    blur_sigma: tuple[float, float] = (0.1, 2.0)
    solarise: float = 0.0
    solarise_threshold: float = 0.5

    def __post_init__(self) -> None:
        """Check every range, and turn lists (from JSON) back into tuples."""
        for name in ("scale", "ratio", "blur_sigma"):
            low, high = getattr(self, name)
            object.__setattr__(self, name, (float(low), float(high)))
            if not 0 < low <= high:
                raise EigenmapError(f"{name} must be two numbers 0 < low <= high, not {(low, high)}.")
        if self.scale[1] > 1:
            raise EigenmapError(f"scale is a share of the image and must be at most 1, not {self.scale[1]}.")
        for name in ("flip", "jitter", "grey", "blur", "solarise", "solarise_threshold"):
            if not 0 <= getattr(self, name) <= 1:
                raise EigenmapError(f"{name} must be between 0 and 1, not {getattr(self, name)}.")
        for name in ("rotation", "brightness", "contrast", "saturation", "hue"):
            if getattr(self, name) < 0:
                raise EigenmapError(f"{name} must be 0 or more, not {getattr(self, name)}.")
        if self.hue > 0.5:
            raise EigenmapError(f"hue is a share of the colour circle and must be at most 0.5, not {self.hue}.")
        if self.interpolation not in ("bilinear", "bicubic"):
            raise EigenmapError(f'interpolation must be "bilinear" or "bicubic", not {self.interpolation!r}.')


ViewPair = tuple[Augmentation, Augmentation]


_SIMCLR = Augmentation(
    scale=(0.08, 1.0),
    flip=0.5,
    jitter=0.8,
    brightness=0.8,
    contrast=0.8,
    saturation=0.8,
    hue=0.2,
    grey=0.2,
    blur=0.5,
)
_BYOL = replace(_SIMCLR, brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1, blur=0.0)
_CIFAR_SIMCLR = replace(_SIMCLR, scale=(0.2, 1.0), brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, blur=0.0)
_WEAK = Augmentation(
    scale=(0.75, 1.0),
    interpolation="bilinear",
    flip=0.5,
    rotation=5.0,
    jitter=1.0,
    brightness=0.3,
    contrast=0.3,
)
_CATALOGUE = replace(_WEAK, rotation=10.0, brightness=0.9, contrast=0.9)

POLICIES: dict[str, ViewPair] = {
    "weak": (_WEAK, _WEAK),
    "cifar": (_BYOL, replace(_BYOL, solarise=0.2)),
    "cifar-wide": (replace(_BYOL, scale=(0.2, 1.0)), replace(_BYOL, scale=(0.2, 1.0), solarise=0.2)),
    "cifar-simclr": (_CIFAR_SIMCLR, _CIFAR_SIMCLR),
    "simclr": (_SIMCLR, _SIMCLR),
    "barlow_twins": (replace(_BYOL, blur=1.0), replace(_BYOL, blur=0.1, solarise=0.2)),
    "catalogue": (_CATALOGUE, _CATALOGUE),
}
"""Two views by name.

- `weak`: for small, centred, aligned pictures, where strong crops destroy what matters.
- `cifar`: the asymmetric views of Barlow Twins without blur, as in solo-learn [1] for 32-pixel images.
- `cifar-wide`: the same with crops of at least a fifth of the image.
- `cifar-simclr`: SimCLR's for 32-pixel images: colour strength 0.5, no blur, crops of at least a fifth of the image.
- `simclr`: Chen et al. [2], colour strength 1.
- `barlow_twins`: Zbontar et al. [3], the same as BYOL's: the first view is always blurred, the second sometimes
solarised.
- `catalogue`: `weak` with much more jitter, for the embedded catalogue, where shape identifies an item and brightness
does not; chosen on its validation images.

[1] da Costa et al. solo-learn: a library of self-supervised methods. JMLR 2022.
[2] Chen, Kornblith, Norouzi, Hinton. A simple framework for contrastive learning. ICML 2020.
[3] Zbontar, Jing, Misra, LeCun, Deny. Barlow Twins. ICML 2021.
"""


def policy(name: str) -> ViewPair:
    """Look up the two views of a recipe by name.

    Example:
        >>> first, second = policy("barlow_twins")

    """
    if name not in POLICIES:
        raise EigenmapError(f"Unknown augmentation recipe {name!r}: choose one of {', '.join(POLICIES)}.")
    return POLICIES[name]
