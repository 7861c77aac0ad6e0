from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from eigenmap import Eigenmap, NeuralEigenmap
from eigenmap.objectives import OBJECTIVES, build
from eigenmap.recipes import RECIPES
from eigenmap.relations.kernel import rbf
from tests.cli.run import refused, succeed


def test_info_says_what_a_model_is(model_dir: Path) -> None:
    text = succeed("info", model_dir).out
    model = Eigenmap.load(model_dir)
    for fact in (
        "projector",
        "16 x 16",
        "small-cnn",
        "scl",
        "52 images",
        "4 steps",
        f"{model.eigenvalues_[0]:.3f}",
        f"{model.eigenvalues_[7]:.3f}",
    ):
        assert fact in text
    for share in (0.9, 0.95, 0.99):
        row = next(line for line in text.splitlines() if f" {share:.0%} " in line)
        assert row.split("│")[2].strip() == str(model.suggest_dim(recall=share))
        assert row.split("│")[3].strip() == str(model.suggest_dim(spectrum=share))


def test_info_of_an_index_tells_items_and_model(model_dir: Path, index_dir: Path, tmp_path: Path) -> None:
    text, model = succeed("info", index_dir).out, succeed("info", model_dir).out
    assert "15, by 8 features each" in text and "float32, compared by cosine" in text
    assert text.endswith(model)
    np.save(tmp_path / "vectors.npy", np.eye(3, dtype=np.float32))
    succeed("index", tmp_path / "vectors.npy", "--out", tmp_path / "plain.index", "--quiet")
    text = succeed("info", tmp_path / "plain.index").out
    assert "3, by 3 features each" in text and "none: vectors" in text


def test_info_of_a_model_without_a_history(model_dir: Path, tmp_path: Path) -> None:
    model = Eigenmap.load(model_dir)
    model.training = {}
    assert re.search("8.*projector", succeed("info", model.save(tmp_path / "bare")).out)


def test_info_of_something_else(tmp_path: Path) -> None:
    assert "directory" in refused("info", tmp_path)


def test_recipes_are_listed() -> None:
    text = succeed("recipes").out
    for name, recipe in RECIPES.items():
        row = next(line for line in text.splitlines() if f" {name} " in line)
        assert recipe.encoder in row and recipe.objective in row
    assert re.search("auto.*default", text)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives_are_listed_with_a_line_about_each(name: str) -> None:
    text = succeed("objectives").out
    row = next(line for line in text.splitlines() if f" {name} " in line)
    assert build(name).summary in row


def test_every_objective_has_a_line_of_its_own() -> None:
    lines = [build(name).summary for name in OBJECTIVES]
    assert all(lines) and len(set(lines)) == len(lines)


def test_info_of_a_model_whose_history_is_anything(model_dir: Path, tmp_path: Path) -> None:
    model = Eigenmap.load(model_dir)
    model.training = {"recipe": {"objective": 3, "name": None, "views": ["\x1b[2J"]}, "seed": "[bold]", "device": {}}
    text = succeed("info", model.save(tmp_path / "odd")).out
    assert "[bold]" in text and "\x1b" not in text


def test_a_description_with_t_that_is_no_number_makes_no_codes(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    model = shutil.copytree(model_dir, tmp_path / "model")
    about = json.loads((model / "model.json").read_text())
    about.pop("description_sha256")
    about["alignment"]["t"] = float("nan")
    (model / "model.json").write_text(json.dumps(about))
    for words in (["info", model], ["embed", model, photos, "--out", tmp_path / "codes.npy"]):
        assert re.search(r"model\.json.*alignment\.t .*nan", refused(*words))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_info_says_what_a_saved_estimator_is(tmp_path: Path) -> None:
    def double(x: Tensor, y: Tensor) -> Tensor:
        return 2 * rbf(x, y)

    x = np.random.default_rng(0).normal(size=(40, 2))
    model = NeuralEigenmap(2, kernel_params={"length_scale": 1.5}, random_state=0).fit(x)
    text = succeed("info", model.save(tmp_path / "kernel")).out
    for fact in ("NeuralEigenmap", "rbf, length_scale 1.5", "2 features", f"{model.eigenvalues_[1]:.3f}"):
        assert fact in text
    text = succeed("info", NeuralEigenmap(2, kernel=double, random_state=0).partial_fit(x).save(tmp_path / "own")).out
    for fact in ("double", "NeuralEigenmap.load", "not computed"):
        assert fact in text
    assert "NeuralEigenmap.load" in refused("embed", tmp_path / "own", tmp_path, "--out", tmp_path / "codes.npy")
