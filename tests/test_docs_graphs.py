"""The examples in docs/graphs.md run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenmap import load_graph

PAGE = Path(__file__).parents[1] / "docs" / "graphs.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 6
    names: dict[str, Any] = {}
    for example in examples:
        shorter = re.sub(r"steps=\d+", "steps=2", example)
        exec(compile(shorter, str(PAGE), "exec"), names)
    assert names["codes"].shape == (600, 4)
    assert names["with_edges"].shape == names["unknown"].shape == (600, 16)
    assert load_graph("named.npz").edge_index.tolist() == [[0, 1, 2], [1, 2, 0]]
    assert np.load("later.npz")["edge_index"].tolist() == [[3], [1]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph", "graph.npz", "later.npz", "named.npz", "runs"]
