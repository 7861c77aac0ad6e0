"""Fits on graphs of growing size: what is recorded, and the slopes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.graphs import growth


def test_slopes() -> None:
    rows = [{"edges": 10, "s": 3.0, "t": 1.0}, {"edges": 100, "s": 21.0, "t": 1.0}]
    assert growth.slope(rows, "s", "t") == pytest.approx(1.0)
    assert growth.slope(rows, "t") == pytest.approx(0.0)
    assert growth.slope(rows[:1], "s") is None


def test_two_small_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--edges", "2e3", "6e3", "--folder", str(tmp_path / "scratch"), "--json", str(tmp_path / "a.json")]
    monkeypatch.setattr("sys.argv", ["growth", *words, "--device", "cpu"])
    growth.main()
    result = json.loads((tmp_path / "a.json").read_text())
    small, large = result["rows"]
    assert small["edges"] < large["edges"] <= 6000 and large["ticks"] >= 2 and large["peak_gb"] > 0
    assert set(result["slopes"]) == {"cpu_seconds", "seconds_without_training", "peak_gb"}
    assert not list((tmp_path / "scratch").iterdir())


def test_the_section_says_whether_growth_is_linear(tmp_path: Path) -> None:
    path = tmp_path / growth.FILE
    assert list(growth.section(path)) == []
    row = {"seconds": 2.0, "cpu_seconds": 1.0, "training_seconds": 0.5, "peak_gb": 0.4, "before_gb": 0.3, "ticks": 9}
    rows = [{**row, "edges": 1000, "nodes": 50}, {**row, "edges": 10_000, "nodes": 500}]
    about = {"device": "a machine", "torch": "2", "commit": "abc", "date": "2026-01-01"}
    for power, verdict in ((1.0, "yes"), (1.4, "missed")):
        slopes = {"cpu_seconds": power, "peak_gb": 0.9, "seconds_without_training": 1.0}
        path.write_text(json.dumps({"rows": rows, "slopes": slopes, **about}))
        text = "\n".join(growth.section(path))
        assert f"linearly from the smallest to the largest graph: {verdict}" in text and "| 10,000 | 500 |" in text
