"""Labelled image sets for training and testing."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.data import ImageSet, Labels, load_images
from eigenmap.reproduce.methods import Scale, recipe_of

LAYOUTS: dict[Scale, tuple[str, str]] = {"paper": ("train", "val"), "small": ("train", "test")}
"""Folders with one folder of images per class, by scale."""
EXPECTED = {
    "paper": "ImageNet as released: train/ and val/ with a folder of images per class (train/n01440764/*.JPEG; the "
    "validation images come in one folder and have to be sorted by class)",
    "small": "CIFAR-10: train/ and test/ with a folder of images per class, or cifar10.npz with train_x, train_y, "
    "test_x and test_y",
}
GENERATED, CLASSES = 160, 4


@dataclass(frozen=True)
class Sets:
    """Labelled images: `train` for training and as the gallery, `test` to classify and as queries."""

    train: ImageSet
    test: ImageSet

    def classes(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the class numbers of both sets, numbered as in the training images."""
        assert self.train.labels is not None and self.test.labels is not None
        return self.train.labels.to_integers(), self.test.labels.in_classes(self.train.labels.names).to_integers()


def load_sets(scale: Scale, data: Path | None, progress: Callable[[int, int], object] | None = None) -> Sets:
    """Read the images of a scale; those of `tiny` are generated."""
    if scale == "tiny":
        return generated()
    folders = find_sources(scale, data)
    if len(folders) == 1:
        return _from_file(folders[0])
    recipe = recipe_of("scl", scale)
    size = recipe.read_size or recipe.image_size
    parts = [load_images(folders[0], size, 3, progress=progress, uncut=recipe.whole_images)]
    parts.append(load_images(folders[1], size, 3, progress=progress))
    for folder, images in zip(folders, parts, strict=True):
        if images.labels is None:
            raise EigenmapError(f"{folder} contains images outside its class folders; move or remove them.")
    train, test = (images.labels.names for images in parts if images.labels is not None)
    if set(test) - set(train):
        name = min(set(test) - set(train))
        raise EigenmapError(
            f"The class {name} is in {folders[1]} but not in {folders[0]}; is the archive completely extracted?"
        )
    return Sets(*parts)


def find_sources(scale: Scale, data: Path | None) -> list[Path]:
    """Return the folders of training and test images, or the one file with both; an error describes the layout."""
    if data is None:
        raise EigenmapError(f"scale={scale} needs a folder as data=, with {EXPECTED[scale]}.")
    file = data / "cifar10.npz"
    if scale == "small" and file.is_file():
        return [file]
    folders = [data / name for name in LAYOUTS[scale]]
    for folder in folders:
        if not folder.is_dir():
            raise EigenmapError(f"{folder} does not exist; {data} must contain {EXPECTED[scale]}.")
        if not class_folders(folder):
            raise EigenmapError(f"{folder} has no class folders; {data} must contain {EXPECTED[scale]}.")
    return folders


def class_folders(folder: Path) -> list[str]:
    """Return the folders in a folder, each of which contains the images of one class."""
    return [each.path for each in os.scandir(folder) if each.is_dir()]


def _from_file(file: Path) -> Sets:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            parts = [(arrays[f"{name}_x"], arrays[f"{name}_y"]) for name in ("train", "test")]
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise EigenmapError(f"{file} cannot be used ({error}); it must contain {EXPECTED['small']}.") from error
    train, test = (load_images(x, 32, 3, labels=Labels.from_array(y)) for x, y in parts)
    return Sets(train, test)


def generated(seed: int = 0) -> Sets:
    """Generate pictures of stripes: four directions, random colours, phases and noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(GENERATED) % CLASSES
    row, column = np.mgrid[:16, :16]
    angle = np.pi * y[:, None, None] / CLASSES
    wave = np.sin(row * np.cos(angle) + column * np.sin(angle) + rng.uniform(0, 6, (GENERATED, 1, 1)))
    colour = rng.uniform(60, 120, (GENERATED, 1, 1, 3))
    pictures = 127 + wave[..., None] * colour + rng.normal(0, 10, (GENERATED, 16, 16, 3))
    x = np.clip(pictures, 0, 255).astype(np.uint8)
    cut = GENERATED * 3 // 4
    train, test = (load_images(x[part], labels=y[part]) for part in (slice(cut), slice(cut, None)))
    return Sets(train, test)
