"""`--config FILE`: what a run records can be run again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import eigenmap as em
from eigenmap.cli.fit.config import Config, read_config
from eigenmap.core.errors import EigenmapError
from tests.cli.run import refused, succeed
from tests.end_to_end.photos import write_photos

SETTINGS = ("-k", "4", "--batch-size", "16", "--set", "hidden=8", "--threads", "1", "--quiet")


def test_a_run_is_repeated_from_what_it_recorded(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", per_kind=12)
    photos, first, again, other = (str(tmp_path / name) for name in ("photos", "first", "again", "other"))
    succeed("fit", "images", photos, "--out", first, "--steps", "3", "--seed", "5", "--lr", "0.004", *SETTINGS)
    config = f"{first}/model.json"
    succeed("fit", "images", photos, "--out", again, "--config", config, "--threads", "1", "--quiet")
    one, two = em.Eigenmap.load(first), em.Eigenmap.load(again)
    assert one.weights_sha256 == two.weights_sha256
    assert one.training["recipe"] == two.training["recipe"] and two.training["seed"] == 5
    changed = ("--steps", "2", "--seed", "0", "--lr", "0.1")
    succeed("fit", "images", photos, "--out", other, "--config", config, *changed, "--threads", "1", "--quiet")
    about = em.Eigenmap.load(other).training
    assert (about["steps"], about["seed"], about["recipe"]["lr"]) == (2, 0, 0.1)
    assert about["recipe"]["hidden"] == 8


def test_a_graph_is_repeated_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    edges = rng.integers(60, size=(2, 400))
    np.savez(tmp_path / "graph.npz", x=rng.normal(size=(60, 5)), edge_index=edges)
    graph, first, again = (str(tmp_path / name) for name in ("graph.npz", "first", "again"))
    options = ("-k", "3", "--seed", "2", "--batch-size", "32", "--set", "width=16", "--threads", "1", "--quiet")
    succeed("fit", "graph", graph, "--out", first, "--steps", "3", *options)
    succeed("fit", "graph", graph, "--out", again, "--config", f"{first}/model.json", "--threads", "1", "--quiet")
    assert em.Eigenmap.load(first).weights_sha256 == em.Eigenmap.load(again).weights_sha256


@pytest.fixture
def vectors(tmp_path: Path) -> tuple[str, str]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", x + 0.3 * rng.normal(size=x.shape).astype(np.float32))
    return str(tmp_path / "x.npy"), str(tmp_path / "y.npy")


@pytest.mark.parametrize(
    "options",
    [
        ("--no-unit-rows", "-k", "5"),
        ("--two-spaces",),
        (),
        ("--solver", "neural", "--steps", "4", "--width", "16", "--lr", "0.02", "--set", "dropout=0.1"),
    ],
)
def test_vectors_are_repeated_too(tmp_path: Path, vectors: tuple[str, str], options: tuple[str, ...]) -> None:
    x, y = vectors
    first, again = str(tmp_path / "first"), str(tmp_path / "again")
    succeed("fit", "vectors", x, "--pairs", y, "--out", first, "--seed", "2", *options, "--threads", "1", "--quiet")
    config = ("--config", f"{first}/model.json", "--threads", "1", "--quiet")
    succeed("fit", "vectors", x, "--pairs", y, "--out", again, *config)
    one, two = em.Eigenmap.load(first), em.Eigenmap.load(again)
    assert one.weights_sha256 == two.weights_sha256
    assert one.training["recipe"] == two.training["recipe"] and two.training["seed"] == 2


def test_options_take_precedence_over_what_vectors_recorded(tmp_path: Path, vectors: tuple[str, str]) -> None:
    x, y = vectors
    first, linear, new = (str(tmp_path / name) for name in ("first", "linear", "new"))
    trained = ("--solver", "neural", "--steps", "4", "--width", "16", "-k", "6")
    succeed("fit", "vectors", x, "--pairs", y, "--out", first, *trained, "--quiet")
    config = ("--config", f"{first}/model.json", "--quiet")
    succeed("fit", "vectors", x, "--pairs", y, "--out", linear, "--solver", "linear", "-k", "3", *config)
    about = em.Eigenmap.load(linear).training["recipe"]
    assert (about["solver"], about["n_components"]) == ("linear", 3)
    succeed("fit", "vectors", x, "--pairs", y, "--into", linear, "--out", new, "--config", f"{linear}/model.json", "-q")
    assert em.Eigenmap.load(new).n_components == 3
    again = ("--out", str(tmp_path / "again"), "--config", f"{new}/model.json", "--quiet")
    succeed("fit", "vectors", x, "--pairs", y, "--into", linear, *again)
    (tmp_path / "mine.json").write_text('{"solver": "neural", "steps": 3, "n_components": 4}')
    mine = ("--config", str(tmp_path / "mine.json"), "--force", "--quiet")
    succeed("fit", "vectors", x, "--pairs", y, "--out", new, *mine)
    about = em.Eigenmap.load(new).training
    assert (about["recipe"]["solver"], about["steps"], about["recipe"]["n_components"]) == ("neural", 3, 4)


def test_towers_are_repeated_too(tmp_path: Path, vectors: tuple[str, str]) -> None:
    images, first, again = (str(tmp_path / name) for name in ("images.npy", "first", "again"))
    np.save(images, np.random.default_rng(0).integers(0, 255, size=(300, 16, 16), dtype=np.uint8))
    options = ("-k", "4", "--batch-size", "32", "--width", "24", "--steps", "3", "--seed", "4")
    succeed("fit", "towers", images, vectors[1], "--out", first, *options, "--quiet")
    succeed("fit", "towers", images, vectors[1], "--out", again, "--config", f"{first}/model.json", "--quiet")
    one, two = em.Eigenmap.load(first), em.Eigenmap.load(again)
    assert one.weights_sha256 == two.weights_sha256
    assert one.training["recipe"] == two.training["recipe"]
    assert (two.training["steps"], two.training["seed"]) == (3, 4)


def test_a_file_of_settings_is_read(tmp_path: Path) -> None:
    assert read_config(None) == Config()
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"lr": 0.1, "clip_norm": None}))
    assert read_config(file) == Config({"lr": 0.1})


@pytest.mark.parametrize(
    ("content", "said"), [("no json", "JSON"), ("[1]", "JSON object"), ('{"format": "x"}', "recipe")]
)
def test_other_files_are_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "mine.json"
    file.write_text(content)
    with pytest.raises(EigenmapError, match=rf"mine\.json.*{said}"):
        read_config(file)
    with pytest.raises(EigenmapError, match=r"nowhere\.json cannot be read: No such file or directory\.$"):
        read_config(tmp_path / "nowhere.json")


def test_unknown_settings_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"colour": 1}')
    options = ("--out", str(tmp_path / "run"), "--config", str(tmp_path / "mine.json"))
    assert "colour" in refused("fit", "images", str(tmp_path), *options)
