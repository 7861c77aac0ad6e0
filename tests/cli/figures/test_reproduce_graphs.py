"""`eigenmap reproduce table-6` at tiny scale, end to end."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.run import refused, succeed


def test_table_6(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    words = ("reproduce", "table-6", "--scale", "tiny", "--device", "cpu", "--runs", 2)
    printed = succeed(*words, "--json", file)
    rows = json.loads(file.read_text())["rows"]
    assert {row["share"] for row in rows} == {1.0, 0.1, 0.01} and len(rows) == 24
    for row in rows:
        assert f"{100 * row['accuracy']:.1f} ± {100 * row['spread']:.1f}" in printed.out
    assert "the paper's, ordered ..." in printed.err


def test_a_graph_is_needed() -> None:
    assert "needs a graph as --data," in refused("reproduce", "table-6")


def test_a_dry_run_measures_steps(tmp_path: Path) -> None:
    file = tmp_path / "dry.json"
    printed = succeed("reproduce", "table-6", "--scale", "tiny", "--device", "cpu", "--dry-run", "--json", file).out
    content = json.loads(file.read_text())
    assert content["nodes"] == 240 and len(content["rows"]) == 3 and "nodes per device" in printed
