"""`eigenmap reproduce table-5` at tiny scale, end to end."""

from __future__ import annotations

import json
from pathlib import Path

from eigenmap.detection.average_precision import average_precision
from tests.cli.run import refused, succeed


def test_table_5(tmp_path: Path) -> None:
    words = ("--json", tmp_path / "t.json", "--detection", tmp_path / "set", "--detections", tmp_path / "found")
    printed = succeed("reproduce", "table-5", "--scale", "tiny", "--device", "cpu", *words)
    rows = json.loads((tmp_path / "t.json").read_text())["rows"]
    assert [row["method"] for row in rows][:2] == ["random weights", "supervised"] and len(rows) == 5
    truth = json.loads((tmp_path / "set" / "annotations" / "instances_val.json").read_text())
    found = json.loads((tmp_path / "found" / "detections-random-s0.json").read_text())
    assert average_precision(truth, found, "bbox") == rows[0]["box"]
    words = ("--scale", "tiny", "--detections", tmp_path / "found")
    assert "detections-random-s0.json exists" in refused("reproduce", "table-5", *words)
    assert f"{100 * rows[0]['mask']['AP50']:.1f}" in printed.out and "supervised ..." in printed.err


def test_what_is_needed(tmp_path: Path) -> None:
    assert "needs --detection DIR" in refused("reproduce", "table-5", "--scale", "tiny", "--devices", 2)
    words = ("reproduce", "table-5", "--scale", "paper", "--detection", tmp_path)
    assert "instances_val2017.json" in refused(*words)
