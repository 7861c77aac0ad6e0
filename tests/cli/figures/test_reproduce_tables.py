"""`eigenmap reproduce table-2`, `table-3`, `table-4`, `tables-7-8` at tiny scale, end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.run import refused, succeed
from tests.data.images.released.miniatures import write_voc

TINY = ("--scale", "tiny", "--device", "cpu")


@pytest.mark.parametrize(("item", "rows"), [("table-2", 10), ("table-3", 9), ("table-4", 6)])
def test_tables_of_probes(item: str, rows: int, tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    printed = succeed("reproduce", item, *TINY, "--json", file, "--runs", tmp_path / "runs")
    content = json.loads(file.read_text())
    assert content["item"] == item and content["scale"] == "tiny" and len(content["rows"]) == rows
    for row in content["rows"]:
        assert row["value"] in printed.out and f"{100 * row['probe']['linear']:.1f}" in printed.out
    if item == "table-2":
        assert printed.out.count("(chosen)") == 2  # of three strengths at two batch sizes
    kept = sorted((tmp_path / "runs").iterdir())
    stamps = [(folder / "probe.json").stat().st_mtime_ns for folder in kept]
    assert "table.json exists" in refused("reproduce", item, *TINY, "--json", file)
    again = succeed("reproduce", item, *TINY, "--json", file, "--runs", tmp_path / "runs", "--force", "--quiet")
    assert again.out == printed.out and again.err == ""
    assert [(folder / "probe.json").stat().st_mtime_ns for folder in kept] == stamps


def test_short_codes(tmp_path: Path) -> None:
    file = tmp_path / "codes.json"
    printed = succeed("reproduce", "tables-7-8", *TINY, "--top", 10, "--json", file).out
    scores = json.loads(file.read_text())["scores"]["own"]
    for name, rows in scores.items():
        assert name in printed and f"{rows[0]['map_over_found@10']:.3f}" in printed
    assert "--search takes NAME=DIR" in refused("reproduce", "tables-7-8", *TINY, "--search", "coco")


def test_a_dry_run_says_memory_steps_and_hours(tmp_path: Path) -> None:
    file = tmp_path / "dry.json"
    printed = succeed("reproduce", "table-4", *TINY, "--dry-run", "--devices", 2, "--json", file).out
    content = json.loads(file.read_text())
    assert content["devices"] == 2 and content["hours"] == pytest.approx(sum(row["hours"] for row in content["rows"]))
    row = content["rows"][-1]
    assert f"{row['steps']:,} x {row['step_seconds']:.3g}" in printed and "GiB" in printed
    assert "needs a folder as --data, with ImageNet" in refused("reproduce", "table-2", "--scale", "paper", "--dry-run")


@pytest.mark.parametrize(
    ("item", "runs"),
    [("tables-7-8", 2), ("figure-retrieval", 3), ("figure-grid", 1), ("figure-excite", 1), ("table-5", 5)],
)
def test_every_item_that_trains_has_a_dry_run(item: str, runs: int, tmp_path: Path) -> None:
    file = tmp_path / "dry.json"
    write_voc(tmp_path)
    search = ("--search", f"voc2012={tmp_path}") if item in ("tables-7-8", "figure-retrieval", "figure-grid") else ()
    printed = succeed("reproduce", item, *TINY, "--dry-run", "--json", file, "--quiet", *search).out
    content = json.loads(file.read_text())
    assert len(content["rows"]) == runs and f"Together {content['hours']:.3g} hours on 1 device like this" in printed
    assert not search or "voc2012: 2 queries, 3 images" in printed


def test_a_set_to_search_is_missed_before_images_are_read(tmp_path: Path) -> None:
    words = ("--scale", "paper", "--data", tmp_path / "nothing", "--search", f"coco={tmp_path}")
    for item in ("tables-7-8", "figure-retrieval", "figure-grid"):
        assert "instances_train2017.json" in refused("reproduce", item, *words)
    assert "--search, such as coco=DIR" in refused("reproduce", "figure-grid", "--scale", "paper")
