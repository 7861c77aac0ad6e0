"""Image sets of the retrieval study: settings, and reading of their .npz files.

A file `<name>.npz` contains `train_x`, `train_y`, `test_x`, `test_y`: uint8 images (N, height, width, channels), and
one class number per image or, if images have several labels, a yes/no matrix (N, classes). `prepare.py` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError


@dataclass(frozen=True)
class DataSet:
    """One image set: the recipe whose stem and size it is trained with, and how retrieval is scored on it."""

    recipe: str
    train_images: int
    views: str
    """Views of every method; the recipe's may have improved since."""
    top: tuple[int, ...] = (100, 1000)
    transfer: str | None = None
    """A second set on which the same network is measured, without fine-tuning."""


SETS: dict[str, DataSet] = {
    "cifar10": DataSet("cifar10-resnet18", 50_000, "cifar"),
    "coco": DataSet("coco-resnet18", 9_602, "barlow_twins", top=(100, 1000, 5000)),
    "tiny": DataSet("tiny-resnet18", 50_000, "cifar", transfer="coco"),
}

QUERIES = {"cifar10": 2_000}
"""Number of test images, from the first, that are queries; all of them by default."""


@dataclass(frozen=True)
class Split:
    """Images (N, C, H, W) uint8 and their labels: (N,) int64, or (N, classes) bool."""

    images: Tensor
    labels: Tensor

    @property
    def multi_label(self) -> bool:
        return self.labels.ndim == 2

    def __len__(self) -> int:
        return len(self.images)


def load(folder: Path, name: str) -> tuple[Split, Split]:
    """Return the training part (the gallery) and the test part (whose first images are the queries) of a set."""
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise EigenmapError(f"{path} does not exist: make it with benchmarks/vision/prepare.py.")
    with np.load(path, allow_pickle=False) as arrays:
        return _split(arrays["train_x"], arrays["train_y"]), _split(arrays["test_x"], arrays["test_y"])


def _split(x: np.ndarray, y: np.ndarray) -> Split:
    labels = torch.from_numpy(y)
    return Split(
        torch.from_numpy(x).permute(0, 3, 1, 2).contiguous(), labels.bool() if labels.ndim == 2 else labels.long()
    )
