from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.scale import embedding


def test_both_ways_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "embedding.json"
    monkeypatch.setattr(sys, "argv", ["embedding.py", "--counts", "12", "--image-size", "16", "--out", str(out)])
    embedding.main()
    rows = json.loads(out.read_text())["rows"]
    assert [(row["how"], row["images"]) for row in rows] == [("streamed", 12), ("all in memory", 12)]
    assert all(row["peak_mb"] > 10 and row["images_per_second"] > 0 for row in rows)
