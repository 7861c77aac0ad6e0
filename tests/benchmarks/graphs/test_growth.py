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


def test_codes_of_two_small_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "EDGES_OF_MODEL", 2000)
    words = ["--edges", "2e3", "6e3", "--folder", str(tmp_path / "scratch"), "--json", str(tmp_path / "a.json")]
    monkeypatch.setattr("sys.argv", ["growth", "--embed", *words, "--device", "cpu"])
    growth.main()
    small, large = json.loads((tmp_path / "a.json").read_text())["rows"]
    assert (small["nodes"], large["nodes"]) == (100, 300) and small["way"].startswith("pagerank")
    assert 3 * 300 * 32 * 4 < large["files_gb"] * 1e9 < 10 * 300 * 32 * 4  # codes and two states
    assert not list((tmp_path / "scratch").iterdir())
    page = "\n".join(growth.embedded(tmp_path / "a.json"))
    assert "| nodes |" in page and "grow at most linearly" in page


def test_the_section_says_whether_growth_is_linear(tmp_path: Path) -> None:
    path = tmp_path / growth.FILE
    assert list(growth.section(path)) == []
    row = {"seconds": 2.0, "training_seconds": 0.5, "before_gb": 0.3, "ticks": 9}
    about = {"device": "a machine", "torch": "2", "commit": "abc", "date": "2026-01-01"}
    # The last is quadratic: the growth from the first hides it, but the growth from the second does not.
    for last, verdict in ((3.0, "yes"), (20.0, "missed")):
        rows = [
            {**row, "edges": edges, "nodes": edges // 20, "cpu_seconds": seconds, "peak_gb": 0.3 + edges / 1e5}
            for edges, seconds in ((1000, 0.9), (10_000, 1.0), (30_000, last))
        ]
        path.write_text(json.dumps({"rows": rows, **about}))
        text = "\n".join(growth.section(path))
        assert f"grow at most linearly: {verdict}" in text and "| 10,000 | 500 |" in text
