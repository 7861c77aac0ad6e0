from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks.eigenfunctions import choices


def test_a_run_that_is_there_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "CHOICES", {"probes": lambda seed: iter([("with", float(seed))])})
    path = tmp_path / choices.FILE
    runs = choices.run_missing(path, until=math.inf)
    assert [(run["seed"], run["figures"]) for run in runs] == [
        (0, {"with": 0.0}),
        (1, {"with": 1.0}),
        (2, {"with": 2.0}),
    ]
    monkeypatch.setattr(choices, "CHOICES", {"probes": lambda seed: pytest.fail("again")})
    assert choices.run_missing(path, until=math.inf) == json.loads(path.read_text())["runs"]


def test_probes_and_the_cut_help() -> None:
    for choice in (choices.probes, choices.cut):
        worse, better = (value for _, value in choice(0))
        assert 0 < worse < better <= 1
