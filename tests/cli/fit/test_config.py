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
    with pytest.raises(EigenmapError, match=r"nowhere\.json"):
        read_config(tmp_path / "nowhere.json")


def test_unknown_settings_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"colour": 1}')
    options = ("--out", str(tmp_path / "run"), "--config", str(tmp_path / "mine.json"))
    assert "colour" in refused("fit", "images", str(tmp_path), *options)
