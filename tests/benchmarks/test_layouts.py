from __future__ import annotations

import pytest

import layouts


@pytest.mark.parametrize("layout", layouts.WIDTHS)
def test_both_layouts_are_measured_in_the_same_way(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "POINTS", 100)
    monkeypatch.setattr(layouts, "STEPS", 60)
    row = layouts.measure(layout, 1.0, 3, seed=0)
    assert row["layout"] == layout
    assert row["worst_overlap_outputs"] > 0.9 and row["worst_overlap_estimator"] > 0.9
