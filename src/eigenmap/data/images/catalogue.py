"""Embedded catalogue: 12,000 garments to try everything on, offline.

A class-balanced sample of Fashion-MNIST [1] (MIT licence, beside the images): 10,000 training and 1,000
validation images from its training set, 1,000 queries from its test set; no image occurs twice. Grey, 28 x 28
pixels, ten classes.

Each split is one PNG sheet of 28-pixel tiles in reading order, and tile i shows class i mod 10, so every ten
consecutive images contain each class once. ``benchmarks/catalogue/make.py`` made the sheets.

Garments are centred and aligned, which favours raw pixels. ``posed=True`` undoes that: every image gets its own zoom
(0.75 to 1.25), rotation (up to 15 degrees) and shift (up to 4 pixels each way), and half of them are mirrored. The pose
of an image depends only on its split and position.

[1] H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST: a novel image dataset for benchmarking machine learning
    algorithms. 2017.

Example:
    >>> images = load("query")
    >>> len(images), images.pixels.shape[1:], images.labels.names[:2]
    (1000, torch.Size([1, 28, 28]), ['t-shirt', 'trouser'])

"""

from __future__ import annotations

from importlib import resources
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.decode import Pixels
from eigenmap.data.images.imageset import ImageSet
from eigenmap.data.images.labels import Labels

SplitName: TypeAlias = Literal["train", "validation", "query"]

SPLITS: tuple[SplitName, ...] = ("train", "validation", "query")
CLASSES = [
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
]
SIZE = 28

_POSE_SEED = 28_028
_BLOCK = 250  # Images posed at a time; their coordinates stay in the processor's cache.


def load(split: SplitName = "train", posed: bool = False) -> ImageSet:
    """Return one split of the catalogue with its labels, unchanged or posed."""
    if split not in SPLITS:
        raise EigenmapError(f"the catalogue has no split '{split}': choose one of {', '.join(SPLITS)}")
    tiles = _read_tiles(split)
    if posed:
        tiles = pose(tiles, seed=(_POSE_SEED, SPLITS.index(split)))
    classes = np.arange(len(tiles)) % len(CLASSES)
    return ImageSet(
        torch.from_numpy(tiles[:, None]),
        [f"{split}/{i:05d}" for i in range(len(tiles))],
        Labels.from_integers(classes, CLASSES),
    )


def pose(images: Pixels, seed: tuple[int, ...]) -> Pixels:
    """Give each grey image (N, S, S) a random pose on black; the pose of image i does not depend on N.

    An output pixel at p (from the centre) shows the input at M R(-angle) (p - shift) / zoom, where M mirrors,
    sampled bilinearly in float64 and rounded.
    """
    side = images.shape[1]
    zoom, angle, right, down, mirror = _uniform(len(images), 5, seed).T
    zoom = 0.75 + 0.5 * zoom
    angle = np.deg2rad(30 * angle - 15)
    right, down = 8 * right - 4, 8 * down - 4
    mirror = np.where(mirror < 0.5, -1.0, 1.0)

    centre = (side - 1) / 2
    y, x = np.mgrid[:side, :side].reshape(2, 1, -1) - centre
    out = np.empty((len(images), side * side), np.uint8)
    for start in range(0, len(images), _BLOCK):
        block = slice(start, start + _BLOCK)
        z, m = zoom[block, None], mirror[block, None]
        cos, sin = np.cos(angle[block, None]) / z, np.sin(angle[block, None]) / z
        u, v = x - right[block, None], y - down[block, None]
        out[block] = _sample(images[block], m * (cos * u + sin * v) + centre, cos * v - sin * u + centre)
    return out.reshape(images.shape)


def _read_tiles(split: str) -> Pixels:
    """Cut the sheet of a split into its tiles, (N, 28, 28)."""
    with (
        resources.files("eigenmap.data.images").joinpath("catalogue", f"{split}.png").open("rb") as stream,
        Image.open(stream) as sheet,
    ):
        pixels = np.asarray(sheet)
    rows, columns = pixels.shape[0] // SIZE, pixels.shape[1] // SIZE
    return pixels.reshape(rows, SIZE, columns, SIZE).swapaxes(1, 2).reshape(-1, SIZE, SIZE)


def _uniform(n: int, k: int, seed: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return n rows of k numbers in [0, 1) from PCG64's raw stream, which NumPy guarantees never to change."""
    raw = np.random.PCG64(np.random.SeedSequence(seed)).random_raw(n * k)
    return ((raw >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(n, k)


def _sample(images: Pixels, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> Pixels:
    """Sample images (N, S, S) bilinearly at positions (N, P); black outside."""
    side = images.shape[1]
    stride = side + 3
    # One black pixel before and two after: clipped coordinates then need no special case.
    padded = np.pad(images, ((0, 0), (1, 2), (1, 2))).reshape(-1)
    x, y = x.clip(-1, side) + 1, y.clip(-1, side) + 1
    left, top = np.floor(x), np.floor(y)
    a, b = x - left, y - top
    corner = (top * stride + left).astype(np.int64) + (np.arange(len(images)) * stride**2)[:, None]
    upper = (1 - a) * padded[corner] + a * padded[corner + 1]
    lower = (1 - a) * padded[corner + stride] + a * padded[corner + stride + 1]
    value: npt.NDArray[np.float64] = (1 - b) * upper + b * lower
    return np.rint(value).astype(np.uint8)
