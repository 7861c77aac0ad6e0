"""Preparing a set with a model that counts letters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.vectors import prepare

from .test_corpora import lists


class Letters:
    """Texts become counts of two letters."""

    calls = 0

    def tokens(self, texts: list[str]) -> list[list[int]]:
        return [[text.count("a"), text.count("o")] for text in texts]

    def rows(self, tokens: list[list[int]]) -> torch.Tensor:
        Letters.calls += 1
        return torch.tensor(tokens, dtype=torch.float32)


def test_a_set_is_written_and_parts_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "lists"
    source.mkdir()
    given = prepare.parser().parse_args(["debian", str(lists(source)), "--out", str(tmp_path / "data")])
    prepare.prepare(given, {"minilm": Letters()})
    folder = tmp_path / "data" / "debian"
    left = np.load(folder / "left.minilm.npy")
    assert sorted(left.tolist()) == [[0, 2], [1, 0]]  # "A tool", "A game"
    about = json.loads((folder / "about.json").read_text())
    assert about["sides"]["left"]["texts"] == 2 and about["models"]["minilm"]["features"] == 2
    before = Letters.calls
    prepare.prepare(given, {"minilm": Letters()})
    assert Letters.calls == before
    np.testing.assert_array_equal(np.load(folder / "left.minilm.npy"), left)


def test_half_precision_is_compared_with_full() -> None:
    class Units:
        tokens = Letters().tokens

        def rows(self, tokens: list[list[int]]) -> torch.Tensor:
            return torch.nn.functional.normalize(torch.tensor(tokens, dtype=torch.float32), dim=1)

    model = prepare.Halved(Units())
    model.rows([[3, 4], [1, 0]])
    assert model.about["cosine"] == pytest.approx(1, abs=1e-4)


def test_no_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare.main(["debian", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "--minilm" in capsys.readouterr().err
