"""Variants run once each, go on where they were, and the page shows what was stored."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.graphs import defaults
from benchmarks.graphs.defaults import Study
from tests.graphs import blocks


def test_every_variant_runs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = blocks(400)
    np.savez(tmp_path / "planetoid_cora.npz", x=graph.x, edge_index=graph.edge_index, y=graph.y)
    small = {"width": 8, "batch_size": 32}
    variants = {"one": small, "two": {**small, "blocks": 2}}
    study = Study("defaults.json", variants, {"planetoid_cora": 3, "amazon_computers": 3}, (0, 1))
    monkeypatch.setitem(defaults.STUDIES, "width", study)
    options = ["--study", "width", "--data", str(tmp_path), "--sets", "planetoid_cora", "--folder", str(tmp_path)]

    def run(seconds: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["x", *options, "--seconds", seconds])
        defaults.main()
        return capsys.readouterr().out.splitlines()

    assert run("-1") == []
    first = run("100")
    assert [line.split()[:3] for line in first] == [
        ["planetoid_cora", variant, seed] for seed in ("0", "1") for variant in ("one", "two")
    ]
    assert run("100") == []  # all of them are there
    rows = json.loads((tmp_path / "defaults.json").read_text())["rows"]
    assert len(rows) == 4 and all(0 < row["validation"] <= 1 for row in rows)
    mean = 50 * (rows[0]["validation"] + rows[2]["validation"])
    assert f"| one | {mean:.1f} |" in defaults.show(study, tmp_path)
