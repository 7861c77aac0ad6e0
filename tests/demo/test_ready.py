"""The trained model in the package: its size, what it finds, and `eigenmap demo --ready`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import eigenmap as em
from eigenmap.data.images import catalogue
from eigenmap.demo import ready
from tests.cli.run import refused, succeed


def test_it_is_small_and_holds_nothing_but_a_model() -> None:
    files = {path.name: path.stat().st_size for path in ready.FOLDER.iterdir()}
    assert set(files) == {"model.json", "model.safetensors", "ready.json"}
    assert sum(files.values()) < 3e6


def test_it_finds_what_was_recorded() -> None:
    """Nearest neighbours of some queries are of the same class about as often as `ready.json` says."""
    model, queries, gallery = ready.load(), catalogue.load("query").subset(range(100)), catalogue.load("train")
    asked, classes = np.arange(100) % 10, np.arange(len(gallery)) % 10
    recorded = {int(row["dim"]): row["precision@100"] for row in ready.scores()["scores"]["ours"]}
    for dim in (2, 8, 128):
        found = model.encode(queries.pixels, dim=dim) @ model.encode(gallery.pixels, dim=dim).T
        precision = np.mean(classes[np.argsort(-found)[:, :100]] == asked[:, None])
        assert precision == pytest.approx(recorded[dim], abs=0.08)
    assert recorded[2] < recorded[8] < recorded[128]


def test_short_codes_find_more_than_as_many_components_of_the_pixels() -> None:
    scores = ready.scores()["scores"]
    ours, pixels = (
        {int(row["dim"]): row["map_over_found@1000"] for row in scores[key]} for key in ("ours", "pixel-pca")
    )
    assert all(ours[dim] > pixels[dim] for dim in (2, 4, 8, 16))


def test_the_command_unpacks_model_index_and_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = str(succeed("demo", "--ready"))
    assert "eigenmap search runs/ready/catalogue.index runs/ready/queries/bag-1.png" in said
    assert len(list(Path("runs/ready/queries").iterdir())) == ready.QUERIES
    model = em.Eigenmap.load("runs/ready/model")
    assert model.weights_sha256 == ready.load().weights_sha256
    index = em.CodeIndex.open("runs/ready/catalogue.index")
    found = index.search(model.encode("runs/ready/queries/bag-1.png"), top=5)
    assert len(index) == 10_000 and all(int(str(name)[-1]) == 8 for name in found.ids[0])  # class 8 is the bags
    assert "runs/ready" in refused("demo", "--ready")  # it exists


def test_a_folder_named_catalogue_is_not_taken_for_the_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("catalogue").mkdir()
    assert "catalogue" in refused("demo", "--ready")
    assert not Path("runs").exists()
    Path("file").touch()
    with pytest.raises(em.EigenmapError, match="file"):
        ready.unpack(Path("file"))
