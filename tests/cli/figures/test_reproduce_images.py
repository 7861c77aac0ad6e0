"""`eigenmap reproduce table-1` and `figure-retrieval` at tiny scale, end to end."""

from __future__ import annotations

import json
from pathlib import Path

from eigenmap.reproduce import ITEMS, our_numbers
from tests.cli.run import refused, succeed


def test_table_1(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    printed = succeed("reproduce", "table-1", "--scale", "tiny", "--device", "cpu", "--json", file)
    rows = json.loads(file.read_text())["rows"]
    assert len(rows) == 8 and {"SimCLR", "SwAV", "MoCo v2", "BYOL", "SimSiam", "SCL"} < {row["method"] for row in rows}
    for row in rows:
        assert f"{100 * row['linear']:.1f}" in printed.out and row["method"] in printed.out
    assert "BYOL ..." in printed.err
    assert "table.json exists" in refused("reproduce", "table-1", "--scale", "tiny", "--json", file)


def test_figure_retrieval(tmp_path: Path) -> None:
    stem, file = tmp_path / "retrieval", tmp_path / "scores.json"
    words = ("reproduce", "figure-retrieval", "--scale", "tiny", "--device", "cpu", "--top", 10)
    printed = succeed(*words, "--out", stem, "--json", file, "--quiet").out
    assert (tmp_path / "retrieval.svg").read_text().startswith("<?xml")
    scores = json.loads(file.read_text())["scores"]
    assert f"4: {scores['SCL'][0]['map_over_found@10']:.3f}" in printed and f"{stem}.svg" in printed


def test_the_list_of_items() -> None:
    printed = succeed("reproduce", "--list").out
    for item in ITEMS:
        assert item.name in printed and item.published in printed and our_numbers()[item.name] in printed


def test_data_that_are_not_there(tmp_path: Path) -> None:
    assert "--scale small needs a folder as --data, with CIFAR-10" in refused("reproduce", "table-1")
    assert str(tmp_path / "train") in refused("reproduce", "table-1", "--data", tmp_path, "--scale", "paper")
    words = ("reproduce", "figure-retrieval", "--data", tmp_path, "--out", tmp_path / "figure")
    assert str(tmp_path / "train") in refused(*words)
    assert list(tmp_path.iterdir()) == []
