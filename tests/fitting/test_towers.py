"""An image tower and a tower of vectors, trained jointly."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

import eigenmap as em
from eigenmap import EigenmapError
from eigenmap.fitting import pipeline
from eigenmap.fitting.options import RunOptions
from eigenmap.fitting.towers import TowerTask
from eigenmap.fitting.vectors import scores_of
from eigenmap.networks.towers import NumberedTower
from eigenmap.training.launch import alone
from tests.cli.run import refused, succeed

QUIET: dict[str, Any] = {"progress": False, "device": "cpu"}


def pictures(n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Handwritten digits, a noisy vector for each that only its class decides, and the class."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))[:n]
    images = np.kron(digits.images[order] / 16 * 255, np.ones((2, 2))).astype(np.uint8)
    words = np.random.default_rng(1).normal(size=(10, 12))
    vectors = words[digits.target[order]] + 0.3 * np.random.default_rng(seed).normal(size=(n, 12))
    return images, vectors.astype(np.float32), digits.target[order]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    images, vectors, _ = pictures(800)
    out = tmp_path_factory.mktemp("towers") / "run"
    em.fit_towers(images, vectors, 8, steps=50, batch_size=64, views="weak", width=32, out=out, **QUIET)
    return out


def test_images_find_the_vectors_of_their_class(trained: Path) -> None:
    model = em.Eigenmap.load(trained)
    images, vectors, classes = (side[900:] for side in pictures(1200))
    assert model.kind == "images" and model.right is not None and model.right.kind == "vectors"
    left, right = model.encode(images), model.right.encode(vectors)
    assert left.shape == right.shape == (300, 8)
    nearest = classes[(left @ right.T).argmax(1)]
    assert (nearest == classes).mean() > 0.7
    short = classes[(model.encode(images, dim=5) @ model.right.encode(vectors, dim=5).T).argmax(1)]
    assert (short == classes).mean() > 0.5
    assert (np.diff(model.eigenvalues_) <= 0).all() and max(scores_of(model)["ours"].values()) > 0.1
    assert model.training["vectors"]["relation"] == "towers"


def test_a_resumed_run_ends_where_an_unbroken_one_does(tmp_path: Path) -> None:
    from tests.compatibility.recording import StopAt, StoppedError

    images, vectors, _ = pictures(200)
    settings: dict[str, Any] = {"steps": 12, "batch_size": 64, "width": 16, "views": "weak", "device": "cpu"}
    whole = em.fit_towers(images, vectors, 4, progress=False, **settings)
    with pytest.raises(StoppedError):
        em.fit_towers(images, vectors, 4, out=tmp_path / "run", progress=StopAt(7), **settings)
    again = em.fit_towers(images, vectors, 4, out=tmp_path / "run", resume=True, progress=False, **settings)
    np.testing.assert_allclose(again.encode(images[:9]), whole.encode(images[:9]), atol=1e-5)


def test_both_sides_can_be_embedded_by_the_command(trained: Path, tmp_path: Path) -> None:
    images, vectors, _ = pictures(20)
    np.save(tmp_path / "x.npy", vectors)
    np.save(tmp_path / "images.npy", images)
    succeed("embed", trained, tmp_path / "x.npy", "--side", "right", "--out", tmp_path / "right.npy")
    succeed("embed", trained, tmp_path / "images.npy", "--side", "left", "--out", tmp_path / "left.npy")
    succeed("embed", trained, tmp_path / "images.npy", "--out", tmp_path / "plain.npy")
    told = refused("embed", trained, tmp_path / "x.npy", "--out", tmp_path / "none.npy")
    assert re.search(r"--side left for images.*--side right for vectors of length \d+", told)
    model = em.Eigenmap.load(trained)
    assert model.right is not None
    np.testing.assert_allclose(np.load(tmp_path / "right.npy"), model.right.encode(vectors), atol=1e-5)
    np.testing.assert_allclose(np.load(tmp_path / "left.npy"), model.encode(images), atol=1e-5)
    np.testing.assert_array_equal(np.load(tmp_path / "left.npy"), np.load(tmp_path / "plain.npy"))


def test_the_command_trains_towers(tmp_path: Path) -> None:
    images, vectors, _ = pictures(200)
    np.save(tmp_path / "images.npy", images)
    np.save(tmp_path / "x.npy", vectors)
    source, out = tmp_path / "images.npy", tmp_path / "run"
    words = ("--out", out, "--steps", 5, "-k", 4, "--device", "cpu")
    succeed("fit", "towers", source, tmp_path / "x.npy", *words, "--batch-size", 64)
    assert em.Eigenmap.load(out).right is not None
    np.save(tmp_path / "y.npy", vectors[:50])
    assert "200 images" in refused("fit", "towers", source, tmp_path / "y.npy", *words, "--force")


def test_whole_grey_pictures_are_seen_as_the_model_will_see_them(tmp_path: Path, monkeypatch: Any) -> None:
    """With the settings of the recipe for ImageNet: squeezed into squares, and with three channels."""
    ramps = np.linspace(0, 1, 48) * np.linspace(50, 250, 40)[:, None]
    files = [tmp_path / f"{number:02}.png" for number in range(40)]
    for file, ramp in zip(files, ramps, strict=True):
        Image.fromarray(np.tile(ramp, (24, 1)).astype(np.uint8)).save(file)
    tasks: list[tuple[TowerTask, RunOptions]] = []
    monkeypatch.setattr(pipeline, "fit", lambda *task: tasks.append(task))
    settings = {"image_size": 24, "whole_images": True, "imagenet_pixels": True, "encoder": "small-cnn"}
    em.fit_towers(tmp_path, np.eye(40, 4), 4, views="cifar", steps=1, **settings, **QUIET)
    ((task, options),) = tasks
    config = options.config(task.recipe, 1)
    problem = task.problem(alone(config), config)
    image, tower = task.image.image, problem.network.left
    assert isinstance(tower, NumberedTower)
    torch.testing.assert_close(tower.see(torch.arange(40), False), image(image.read(files)), atol=0.1, rtol=0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"vectors": np.zeros((3, 4))}, "200 images.* 3 rows"),
        ({"n_components": 150}, "too few for 150 features"),
        ({"epochs": 0}, "epochs=0"),
        ({"steps": 5, "epochs": 1}, "not both"),
        ({"width": 0, "images": "nowhere"}, "width"),
        ({"objective": "nothing"}, "objective"),
        ({"views": "nothing"}, "nothing"),
        ({"encoder": "nothing"}, "nothing"),
        ({"batch_size": 1}, "batch_size must be at least 2"),
        ({"n_components": 1}, "n_components must be at least 2"),
        ({"n_components": 0}, "n_components must be above 0"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(change: dict[str, Any], says: str) -> None:
    images, vectors, _ = pictures(200)
    given = {"images": images, "vectors": vectors, **change}
    with pytest.raises(EigenmapError, match=says):
        em.fit_towers(**given, **QUIET)
