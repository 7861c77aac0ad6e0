"""Cost of alignment and codes, in small."""

from __future__ import annotations

import pytest

from benchmarks.vision import code_cost


def test_both_alignments_and_both_codes_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_cost.evidence, "__defaults__", (600, 300))
    result = code_cost.measure(components=16, images=2, repeat=2)
    for name in ("alignment_seconds", "code_seconds"):
        assert set(result[name]) == {"before", "default"} and min(result[name].values()) > 0
    seconds = result["alignment_seconds"]
    assert result["ratios"]["alignment"] == pytest.approx(seconds["default"] / seconds["before"])


def test_the_outputs_share_factors() -> None:
    found = code_cost.align_outputs(code_cost.evidence(20, 12, pairs=500, kept=200), ("both",), 12)["both"]
    assert found.n_components == 12 and float(found.eigenvalues.max()) > 0.5
