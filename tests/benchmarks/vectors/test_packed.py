"""Texts and models packed here, and embedded as if elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity

from benchmarks.vectors import packed
from benchmarks.vectors.models import Table, embed

from .test_corpora import lists
from .test_models import Words, minilm


def test_a_pack_gives_the_vectors_that_the_models_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "lists"
    source.mkdir()
    bert = minilm(tmp_path, monkeypatch)
    table = Table(torch.randn(50, 3), torch.ones(3))
    table.tokens = Words()  # type: ignore[attr-defined]
    models = {"minilm": bert, "wordllama": table}
    packed.pack(tmp_path / "pack", [("debian", lists(source))], models)  # type: ignore[arg-type]
    packed.embed(tmp_path / "pack", tmp_path / "data", "cpu")
    (left, right) = packed.sides("debian", source, None, tmp_path)
    about = json.loads((tmp_path / "data" / "debian" / "about.json").read_text())
    assert about["sides"] == {side.name: packed.facts(side) for side in (left, right)}
    for name, model in models.items():
        found, exact = np.load(tmp_path / "data" / f"debian/left.{name}.npy"), embed(model, left.texts)  # type: ignore[arg-type]
        assert found.shape == exact.shape
        assert float(cosine_similarity(torch.from_numpy(found), torch.from_numpy(exact)).min()) > 0.999


def test_numbers_of_sixteen_bits_survive_their_planes() -> None:
    values = torch.randn(3, 5).bfloat16()
    torch.testing.assert_close(packed._values(packed._bits(values), torch.bfloat16), values.float(), rtol=0, atol=0)
