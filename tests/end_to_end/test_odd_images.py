"""Images that nobody expects, from fit to search. In one process: what is tested is what happens to the images."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.run import refused, succeed
from tests.end_to_end.photos import picture, pictures


def fit_and_find(source: Path, out: Path, *options: object) -> dict[str, str]:
    """Fit, index and search a source; returns what each image found first."""
    succeed("fit", "images", source, "--out", out / "run", "-k", 4, "--steps", 2, "--device", "cpu", *options)
    succeed("index", out / "run", source, "--out", out / "an.index")
    succeed("search", out / "an.index", source, "--top", 1, "--json", out / "found.json")
    found = json.loads((out / "found.json").read_text())
    return {result["query"]: result["found"][0]["id"] for result in found["results"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    return tmp_path / "images"


@pytest.mark.parametrize("name", ["pictures.npy", "pictures.npz"])
def test_arrays(name: str, tmp_path: Path) -> None:
    if name.endswith("y"):
        np.save(tmp_path / name, pictures(20, 12))
    else:
        np.savez(tmp_path / name, images=pictures(20, 12))
    assert fit_and_find(tmp_path / name, tmp_path) == {str(i): str(i) for i in range(20)}


def test_grey_pictures(tmp_path: Path) -> None:
    np.save(tmp_path / "grey.npy", pictures(20, 12).mean(-1).astype(np.uint8))
    assert fit_and_find(tmp_path / "grey.npy", tmp_path) == {str(i): str(i) for i in range(20)}
    assert json.loads((tmp_path / "run" / "model.json").read_text())["input"]["channels"] == 1


def test_images_of_one_pixel(folder: Path, tmp_path: Path) -> None:
    for i in range(20):
        Image.new("RGB", (1, 1), (12 * i, 255 - 12 * i, 100)).save(folder / f"{i}.png")
    assert len(fit_and_find(folder, tmp_path, "--image-size", 8)) == 20


def test_all_sizes_at_once(folder: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes = [(1, 1), (1, 20_000), (20_000, 1), (300, 7), (64, 64), *rng.integers(5, 90, (15, 2)).tolist()]
    for i, (height, width) in enumerate(sizes):
        Image.fromarray(picture("disc" if i % 2 else "bars", rng, height, width)).save(folder / f"{i}.png")
    assert len(fit_and_find(folder, tmp_path, "--image-size", 16)) == 20


def test_a_single_class(folder: Path, tmp_path: Path) -> None:
    (folder / "only").mkdir()
    rng = np.random.default_rng(0)
    for i in range(20):
        Image.fromarray(picture("disc", rng, 20, 20)).save(folder / "only" / f"{i}.png")
    found = fit_and_find(folder, tmp_path)
    assert found == {name: name for name in found}
    result = succeed("evaluate", "retrieval", tmp_path / "run", "--gallery", folder, "--top", 5)
    assert "class (only)" in result.err
    assert result.out.count("1.0000") >= 4  # precision and map_over_found at both lengths


def test_three_images_are_too_few(folder: Path, tmp_path: Path) -> None:
    for i in range(3):
        Image.fromarray(pictures(3)[i]).save(folder / f"{i}.png")
    sentence = refused("fit", "images", folder, "--out", tmp_path / "run")
    assert re.search("3 images.*16", sentence)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("picture", [pictures(1)[0], np.zeros((12, 12, 3), np.uint8)], ids=["noise", "black"])
def test_images_that_are_all_the_same_teach_nothing(folder: Path, tmp_path: Path, picture: np.ndarray) -> None:
    for i in range(20):
        Image.fromarray(picture).save(folder / f"{i}.png")
    sentence = refused("fit", "images", folder, "--out", tmp_path / "run", "-k", 4, "--steps", 2, "--quiet")
    assert "same" in sentence
    assert not (tmp_path / "run" / "model.json").exists()


def test_odd_names(folder: Path, tmp_path: Path) -> None:
    names = ["two words.png", "[red]x.png", "comma,semi;.png", "ünï—✓.PNG", "-dash.png", "new\nline.png", ".hidden.png"]
    for i, name in enumerate([*names, *(f"{i}.png" for i in range(14))]):
        Image.fromarray(pictures(1, seed=i)[0]).save(folder / name)
    found = fit_and_find(folder, tmp_path)
    assert set(names) - set(found) == {".hidden.png"}
    result = succeed("search", tmp_path / "an.index", folder / "[red]x.png", "--top", 1)
    assert result.out.count("[red]x.png") == 2  # the title, and the file found


def test_more_components_than_the_rank_succeeds_and_says_so(tmp_path: Path) -> None:
    np.save(tmp_path / "pictures.npy", pictures(320, 8))
    result = succeed(
        *("fit", "images", tmp_path / "pictures.npy", "--out", tmp_path / "run", "--steps", 1, "--device", "cpu"),
        *("-k", 280, "--set", "codes=encoder"),
    )
    assert re.search(r"rank.*25\d.*280", result.err)


def test_pipes_among_the_images_are_left_out(folder: Path, tmp_path: Path) -> None:
    """A link to a pipe that nobody writes to: opening it would wait for ever."""
    for number, pixels in enumerate(pictures(20, 12)):
        Image.fromarray(pixels).save(folder / f"{number:02d}.png")
    os.mkfifo(tmp_path / "pipe")
    (folder / "pipe.png").symlink_to(tmp_path / "pipe")
    found = fit_and_find(folder, tmp_path)
    assert found == {f"{number:02d}.png": f"{number:02d}.png" for number in range(20)}
    result = succeed("embed", tmp_path / "run", folder, "--out", tmp_path / "codes.npy")
    assert re.search(r"pipe\.png.*regular file", result.err)
    assert "regular file" in refused("search", tmp_path / "an.index", folder / "pipe.png")
