"""The figures of the docs show the stored results, and come with a record of what made them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from benchmarks.catalogue import figures
from eigenmap import fit_images
from eigenmap.data.images import catalogue


def test_pictures_and_their_numbers_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    figures.main(
        [str(tmp_path / "run"), "--steps", "1", "--images", str(tmp_path), "--folder", str(tmp_path / "results")]
    )
    for name in ("exciting", "queries", "optimised"):
        with Image.open(tmp_path / f"{name}.png") as image:
            assert image.width > 500
    written = json.loads((tmp_path / "results" / "figures-catalogue.json").read_text())
    assert written["model"]["steps"] == 2 and written["commit"] and len(written["exciting"]) == 8


def _few(load):  # type: ignore[no-untyped-def]
    return lambda split: load(split).subset(range(100))
