from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.vision import evaluation_cost


def test_both_ways_have_the_same_mean_average_precision() -> None:
    data = tuple(
        part
        for pair in zip(evaluation_cost.codes(40, 64, seed=1), evaluation_cost.codes(700, 64, seed=2), strict=True)
        for part in pair
    )
    ours = evaluation_cost.by_blocks(data, [2, 64], top=50, device=torch.device("cpu"))  # type: ignore[arg-type]
    whole = evaluation_cost.sorted_whole(data, top=50, device=torch.device("cpu"))  # type: ignore[arg-type]
    assert ours == pytest.approx(whole, abs=1e-9) and ours > 0.02  # 1 of 100 classes by chance


def test_the_command_writes_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "evaluation-cost-cpu.json"
    words = "evaluation_cost.py --device cpu --galleries 300 600 --queries 20 --features 8 --top 10 --json"
    monkeypatch.setattr(sys, "argv", [*words.split(), str(file)])
    evaluation_cost.main()
    page = "\n\n".join(evaluation_cost.section({file.stem: json.loads(file.read_text())}))
    assert "20 queries, 8 features" in page and "`retrieval`, all 3 lengths, 300" in page
    assert "sorted whole, 300" in page and "sorted whole, 600" not in page and "the product alone, 600" in page
    assert "On a GPU: not run." in page
