"""The tables that the study quotes are what the results say."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import DOCS
from benchmarks.vision import study_page, tables


def test_without_results_nothing_is_claimed(tmp_path: Path) -> None:
    text = study_page.page((DOCS / "objective-study.md").read_text(encoding="utf-8"), tmp_path)
    rows = len(study_page.SETS) * len((*tables.LEADING, *tables.SAME_TRAININGS))
    assert text.count("| not run |") >= rows and "| `nested`, SGD 0.3 |" not in text
    assert "kNN accuracy" not in study_page.headline(tables.Results(tmp_path))


def test_a_page_without_the_place_for_a_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has lost the lines '<!-- cifar10: written by"):
        study_page.page("no tables", tmp_path)
