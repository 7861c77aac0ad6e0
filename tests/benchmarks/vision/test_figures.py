"""The figure of the docs shows the stored results."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev

import pytest

from benchmarks.vision import RESULTS, figures
from eigenmap.figures.scores import panels


def test_cifar10_is_the_mean_of_the_stored_seeds() -> None:
    (panel,) = panels(figures.cifar10_scores(), "map_over_found@1000")
    assert [curve.name for curve in panel.curves] == [f"{line.name} (3 runs)" for line in figures.CIFAR10]
    files = [RESULTS / f"retrieval-cifar10-scl-lr0.75-e50-k2048-b512-s{seed}.json" for seed in range(3)]
    rows = [json.loads(file.read_text())["retrieval"]["projector aligned"] for file in files]
    at_eight = [row["map_over_found@1000"] for table in rows for row in table if row["dim"] == 8]
    assert panel.curves[0].values[8] == pytest.approx(mean(at_eight))
    assert panel.curves[0].spread[8] == pytest.approx(stdev(at_eight))


def test_the_picture_is_written(tmp_path: Path) -> None:
    figures.main(["--images", str(tmp_path)])
    assert (tmp_path / "cifar10.png").stat().st_size > 5_000
