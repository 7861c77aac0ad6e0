"""The figures of the docs show the stored results, and come with a record of what made them."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev

import pytest
from PIL import Image

from benchmarks.catalogue import figures
from benchmarks.vision import RESULTS
from eigenmap import fit_images
from eigenmap.data.images import catalogue
from eigenmap.figures.scores import panels


def test_cifar10_is_the_mean_of_the_stored_seeds() -> None:
    (panel,) = panels(figures.cifar10_scores(), "map_over_found@1000")
    assert [curve.name for curve in panel.curves] == [f"{line.name} (3 runs)" for line in figures.CIFAR10]
    files = [RESULTS / f"retrieval-cifar10-scl-lr0.75-e50-k2048-b512-s{seed}.json" for seed in range(3)]
    rows = [json.loads(file.read_text())["retrieval"]["projector aligned"] for file in files]
    at_eight = [row["map_over_found@1000"] for table in rows for row in table if row["dim"] == 8]
    assert panel.curves[0].values[8] == pytest.approx(mean(at_eight))
    assert panel.curves[0].spread[8] == pytest.approx(stdev(at_eight))


def test_both_commands_write_their_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(catalogue, "load", _few(catalogue.load))
    fit_images(
        *(catalogue.load("train"), 8),
        steps=2,
        batch_size=64,
        hidden=32,
        out=tmp_path / "run",
        device="cpu",
        progress=False,
    )
    figures.main(["catalogue", str(tmp_path / "run"), "--steps", "1", "--images", str(tmp_path)])
    for name in ("exciting", "queries", "optimised"):
        with Image.open(tmp_path / f"{name}.png") as image:
            assert image.width > 500
    written = json.loads((tmp_path / "results" / "figures-catalogue.json").read_text())
    assert written["model"]["steps"] == 2 and written["commit"] and len(written["exciting"]) == 8
    monkeypatch.undo()
    figures.main(["cifar10", "--images", str(tmp_path)])
    assert (tmp_path / "cifar10.png").stat().st_size > 5_000


def _few(load):  # type: ignore[no-untyped-def]
    return lambda split: load(split).subset(range(100))
