from __future__ import annotations

import doctest
import hashlib
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.catalogue import make
from eigenmap.core.errors import EigenmapError
from eigenmap.data.images import catalogue

FOLDER = Path(catalogue.__file__).with_name("catalogue")

CLEAN = {
    "train": "5fbe898ccb1c7f717c689a461d7a5b39a594ee88a6bf8978427e1e55abf35be8",
    "validation": "a7a84778623fa37fb2164de326cc6b63d196af3f9589bcca633c9aba38801ae5",
    "query": "30a9dc6da836c7794109505896f65e8c590f1d3e3294f49a2fc67db287329844",
}
POSED = {
    "train": "52837151c9f1591ac8f7f31dc8bde7408464d868d964a61e737aaf411f1cbbc8",
    "validation": "02b67767cf67d0ea01439bb2187535a1269a4f6b80e5192a3509f013beb31490",
    "query": "a7621c39a98fc3bcbc59f8b7c52fce38bb2c5cd2b7cec730bcb3d02eebfa66e0",
}


def digest(pixels: torch.Tensor) -> str:
    return hashlib.sha256(pixels.numpy().tobytes()).hexdigest()


@pytest.mark.parametrize("split", catalogue.SPLITS)
def test_size_balance_and_content(split: catalogue.SplitName) -> None:
    images = catalogue.load(split)
    n = 10_000 if split == "train" else 1_000
    assert images.pixels.shape == (n, 1, 28, 28)
    assert images.labels is not None
    assert images.labels.names[:3] == ["t-shirt", "trouser", "pullover"]
    assert images.labels.matrix.sum(0).tolist() == [n // 10] * 10
    assert images.labels.to_integers()[:12].tolist() == [*range(10), 0, 1]
    assert len(set(images.ids)) == n
    assert digest(images.pixels) == CLEAN[split]


def test_labels_belong_to_the_images() -> None:
    """Trousers and bags look alike within their class: nearest class means name most queries correctly."""
    train, query = catalogue.load("train"), catalogue.load("query")
    assert train.labels is not None
    assert query.labels is not None
    pixels = train.pixels.flatten(1).float()
    means = torch.stack([pixels[train.labels.matrix[:, c]].mean(0) for c in range(10)])
    guess = torch.cdist(query.pixels.flatten(1).float(), means).argmin(1)
    assert (guess == query.labels.to_integers()).float().mean() > 0.6


def test_no_image_occurs_twice() -> None:
    images = torch.cat([catalogue.load(split).pixels for split in catalogue.SPLITS]).numpy()
    assert len({image.tobytes() for image in images}) == 12_000


@pytest.mark.parametrize("split", catalogue.SPLITS)
def test_posed_images_are_the_same_everywhere(split: catalogue.SplitName) -> None:
    assert digest(catalogue.load(split, posed=True).pixels) == POSED[split]


def test_poses_follow_the_equation() -> None:
    images = catalogue.load("query").pixels[:12, 0].numpy()
    posed = catalogue.pose(images, seed=(1, 2))
    draws = np.random.PCG64(np.random.SeedSequence((1, 2))).random_raw(60) >> np.uint64(11)
    for k, (zoom, angle, right, down, mirror) in enumerate((draws / 2.0**53).reshape(12, 5)):
        zoom, angle = 0.75 + zoom / 2, math.radians(-15 + 30 * angle)
        right, down = -4 + 8 * right, -4 + 8 * down
        for row, column in [(0, 0), (14, 14), (3, 20), (22, 9), (13, 5), (27, 16)]:
            u, v = (column - 13.5 - right) / zoom, (row - 13.5 - down) / zoom
            x = u * math.cos(angle) + v * math.sin(angle)
            y = v * math.cos(angle) - u * math.sin(angle)
            x = 13.5 + (-x if mirror < 0.5 else x)
            y = 13.5 + y
            value = 0.0
            for r in range(28):
                for c in range(28):
                    value += max(0.0, 1 - abs(x - c)) * max(0.0, 1 - abs(y - r)) * float(images[k, r, c])
            assert abs(posed[k, row, column] - value) <= 0.5 + 1e-9


def test_the_pose_of_an_image_does_not_depend_on_the_others() -> None:
    images = catalogue.load("query").pixels[:600, 0].numpy()
    np.testing.assert_array_equal(catalogue.pose(images, (3,))[:300], catalogue.pose(images[:300], (3,)))


def test_poses_spread_over_their_ranges() -> None:
    draws = catalogue._uniform(10_000, 5, (9,))
    assert draws.min() >= 0
    assert draws.max() < 1
    np.testing.assert_allclose(draws.mean(0), 0.5, atol=0.02)
    np.testing.assert_allclose(draws.var(0), 1 / 12, atol=0.005)


def test_licence_and_weight() -> None:
    licence = (FOLDER / "LICENSE-fashion-mnist.txt").read_text()
    assert "Zalando SE" in licence
    assert "MIT License" in licence
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= 6_000_000


def test_unknown_split() -> None:
    with pytest.raises(EigenmapError, match=r"'test'.*train, validation, query"):
        catalogue.load("test")  # type: ignore[arg-type]


def test_examples() -> None:
    assert doctest.testmod(catalogue).failed == 0


# --- the script that makes it ------------------------------------------------------------------------------------


def test_choice_is_balanced_repeatable_and_without_doubles() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (400, 28, 28), dtype=np.uint8)
    classes = np.arange(400, dtype=np.uint8) % 10
    images[100:400] = images[:300]  # Most images have doubles of the same class.
    images[:, 0, 0] = classes
    seen = {hashlib.sha256(images[0].tobytes()).digest()}
    chosen = make.choose(images, classes, per_class=9, seen=set(seen))
    assert chosen[:, 0, 0].tolist() == list(range(10)) * 9
    assert len({image.tobytes() for image in chosen}) == 90
    assert images[0].tobytes() not in {image.tobytes() for image in chosen}
    np.testing.assert_array_equal(chosen, make.choose(images, classes, per_class=9, seen=set(seen)))


def test_sheets_are_read_back() -> None:
    tiles = catalogue.load("validation").pixels[:, 0].numpy()
    sheet = make.sheet(tiles)
    assert sheet.shape == (280, 2800)
    np.testing.assert_array_equal(sheet[28:56, 56:84], tiles[102])
