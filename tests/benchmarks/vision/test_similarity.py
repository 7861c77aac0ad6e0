"""Measures of similarity as cosines of longer vectors, against their definitions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from benchmarks.vision import similarity


def ranked(measure: str, queries: torch.Tensor, gallery: torch.Tensor) -> list[list[int]]:
    a, b = (normalize(codes, dim=1) for codes in similarity.longer(queries, gallery, measure, torch.tensor(2.0)))
    return (a @ b.T).argsort(1, descending=True).tolist()


def test_longer_vectors_rank_as_their_measure() -> None:
    torch.manual_seed(0)
    queries, gallery = torch.randn(5, 6).double(), torch.randn(40, 6).double()
    cosine = normalize(queries, dim=1) @ normalize(gallery, dim=1).T
    assert ranked("cosine", queries, gallery) == cosine.argsort(1, descending=True).tolist()
    product = queries @ gallery.T
    assert ranked("inner product", queries, gallery) == product.argsort(1, descending=True).tolist()
    with_constant = (torch.cat([codes, torch.full((len(codes), 1), 2.0)], dim=1) for codes in (queries, gallery))
    first, second = (normalize(codes, dim=1) for codes in with_constant)
    expected = (first @ second.T).argsort(1, descending=True).tolist()
    assert ranked("constant function", queries, gallery) == expected
    # Far out a cosine is a distance, but for neighbours that are almost equally far.
    distance = torch.cdist(queries, gallery)
    far = torch.tensor(ranked("Euclidean", queries, gallery))
    assert bool((distance.gather(1, far).diff(dim=1) > -0.02).all())


def test_a_study_is_printed_and_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    classes = rng.normal(size=(3, 20))
    labels = {"gallery": rng.integers(3, size=60), "queries": rng.integers(3, size=9)}
    codes = {
        name: (classes[of] + 0.1 * rng.normal(size=(len(of), 20))).astype(np.float16) for name, of in labels.items()
    }
    mu = np.linspace(0.9, 0.1, 20)
    np.savez(
        tmp_path / "codes.npz",
        gallery=(codes["gallery"] * mu**2).astype(np.float16),
        queries=(codes["queries"] * mu**2).astype(np.float16),
        gallery_labels=labels["gallery"],
        query_labels=labels["queries"],
        eigenvalues=mu,
        t=2.0,
    )
    loaded = similarity.load(tmp_path / "codes.npz", 5)
    assert len(loaded["queries"]) == 5
    assert torch.allclose(loaded["gallery"], torch.from_numpy(codes["gallery"]).float(), rtol=5e-3, atol=1e-2)
    out = tmp_path / "similarity.json"
    monkeypatch.setattr(sys, "argv", ["similarity.py", f"toy={tmp_path / 'codes.npz'}", "--json", str(out)])
    similarity.main()
    assert "toy, precision@10" in capsys.readouterr().out
    rows = json.loads(out.read_text())["sets"]["toy"]
    assert len(rows) == 5 * 5 * 4  # measures, exponents, lengths up to 20
    assert min(row["precision@10"] for row in rows if row["dim"] == 16 and row["measure"] == "cosine") > 0.9
