"""`eigenmap reproduce figure-grid`, `figure-excite`, `figure-optimise` at tiny scale, end to end."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.run import refused, succeed

TINY = ("--scale", "tiny", "--device", "cpu", "--quiet")


def test_pictures_of_one_model(tmp_path: Path) -> None:
    runs = ("--runs", tmp_path / "runs")
    words = ("--out", tmp_path / "grid.svg", "--json", tmp_path / "grid.json")
    printed = succeed("reproduce", "figure-grid", *TINY, *runs, *words).out
    found = json.loads((tmp_path / "grid.json").read_text())
    assert (
        found["search"] == "own" and len(found["results"]) == 4 and "in its class, by number of features: 4:" in printed
    )
    (model,) = (tmp_path / "runs").iterdir()  # the second and third item use what the first has trained
    words = ("--out", tmp_path / "excite", "--json", tmp_path / "excite.json")
    succeed("reproduce", "figure-excite", *TINY, *runs, *words)
    assert len(json.loads((tmp_path / "excite.json").read_text())["images"]) == 8
    words = ("--out", tmp_path / "made", "--json", tmp_path / "made.json", "--steps", 5)
    printed = succeed("reproduce", "figure-optimise", *TINY, "--model", model, *words).out
    values = json.loads((tmp_path / "made.json").read_text())["values"]
    assert f"{values[0][0]:+.1f} / {values[0][1]:+.1f}" in printed
    for name in ("grid", "excite", "made"):
        assert (tmp_path / f"{name}.svg").read_text().startswith("<?xml") and (tmp_path / f"{name}.png").is_file()
    assert "grid.svg exists" in refused("reproduce", "figure-grid", *TINY, "--out", tmp_path / "grid")
    assert "needs a folder as --data" in refused("reproduce", "figure-excite", "--out", tmp_path / "x")
