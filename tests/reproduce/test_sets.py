"""Sets in miniatures of the released layouts, and what is said of those that are incomplete."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from eigenmap.core.errors import EigenmapError
from eigenmap.reproduce import load_sets
from eigenmap.reproduce.sets import generated


def write(
    folder: Path, classes: list[str], count: int = 2, size: tuple[int, int] = (40, 30), form: str = "JPEG"
) -> None:
    for number, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            Image.new("RGB", size, (40 * number, 90, 20 * i)).save(folder / name / f"{name}_{i}.JPEG")


def test_imagenet_folders(tmp_path: Path) -> None:
    write(tmp_path / "train", ["n01440764", "n01443537", "n01484850"])
    write(tmp_path / "val", ["n01443537", "n01440764"], count=1)
    sets = load_sets("paper", tmp_path)
    assert sets.train.pixels.shape == (6, 3, 256, 256) and sets.train.aspects is not None
    assert sets.train.aspects.tolist() == pytest.approx([4 / 3] * 6)
    assert sets.test.aspects is None
    y, y_test = sets.classes()
    assert y.tolist() == [0, 0, 1, 1, 2, 2] and y_test.tolist() == [0, 1]


def test_cifar_folders_and_file(tmp_path: Path) -> None:
    write(tmp_path / "train", ["cat", "dog"], size=(32, 32))
    write(tmp_path / "test", ["dog"], size=(32, 32))
    sets = load_sets("small", tmp_path)
    assert sets.train.pixels.shape == (4, 3, 32, 32) and sets.classes()[1].tolist() == [1, 1]
    rng = np.random.default_rng(0)
    arrays = {f"{part}_x": rng.integers(0, 256, (5, 32, 32, 3), dtype=np.uint8) for part in ("train", "test")}
    np.savez(tmp_path / "cifar10.npz", **arrays, train_y=np.arange(5) % 2, test_y=np.arange(5) % 2)
    sets = load_sets("small", tmp_path)
    assert torch.equal(sets.test.pixels, torch.from_numpy(arrays["test_x"]).permute(0, 3, 1, 2))
    assert sets.classes()[1].tolist() == [0, 1, 0, 1, 0]


def test_incomplete_sets_are_told_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"scale=paper needs a folder as data=, with ImageNet.*train/ and val/"):
        load_sets("paper", None)
    write(tmp_path / "train", ["n01440764"])
    with pytest.raises(EigenmapError, match=r"val does not exist.*ImageNet as released"):
        load_sets("paper", tmp_path)
    write(tmp_path / "val", ["n01440764", "n01443537"])
    with pytest.raises(EigenmapError, match=r"class n01443537 is in .*val but not in .*train"):
        load_sets("paper", tmp_path)
    (tmp_path / "cifar10.npz").write_bytes(b"PK no archive")
    with pytest.raises(EigenmapError, match=r"cifar10.npz cannot be used"):
        load_sets("small", tmp_path)


def test_folders_without_classes(tmp_path: Path) -> None:
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        Image.new("RGB", (32, 32)).save(tmp_path / part / "a.png")
    with pytest.raises(EigenmapError, match=r"train has no class folders"):
        load_sets("small", tmp_path)


def test_images_beside_class_folders(tmp_path: Path) -> None:
    for part in ("train", "test"):
        write(tmp_path / part, ["cat"])
    Image.new("RGB", (32, 32)).save(tmp_path / "train" / "a.png")
    with pytest.raises(EigenmapError, match=r"train contains images outside its class folders"):
        load_sets("small", tmp_path)


def test_generated_images_are_the_same_each_time() -> None:
    one, two, other = generated(), generated(), generated(seed=1)
    assert torch.equal(one.train.pixels, two.train.pixels) and not torch.equal(one.train.pixels, other.train.pixels)
    assert len(one.train) == 120 and sorted(set(one.classes()[1].tolist())) == [0, 1, 2, 3]
