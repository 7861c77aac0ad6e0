"""The examples of docs/kernels.md run, in order, as one program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "kernels.md"


def test_the_examples_run_and_do_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 7
    space: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), space)
    codes, model = space["codes"], space["model"]
    assert codes.shape == (500, 8)
    assert abs(codes.T @ codes / 500 - space["np"].eye(8)).max() < 1e-6
    assert model.score(space["X"]) > 0.99
    space["np"].testing.assert_array_equal(space["again"].transform(space["X"]), model.transform(space["X"]))
    assert len(space["waves"].eigenvalues_) == 2
    space["np"].testing.assert_allclose(space["leading"].eigenvalues_, space["graph"].eigenvalues_, rtol=1e-3)
    assert space["stream"].n_steps_ == 3
