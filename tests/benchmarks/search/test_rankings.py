"""The two rankings of compact codes are scored as `retrieval` and a plain loop score them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common.codes import Codes
from benchmarks.search import measure, photos, rankings, tables
from eigenmap import fit_images
from eigenmap.evaluation.retrieval import retrieval

K = 16


@pytest.fixture
def codes_file(tmp_path: Path) -> Path:
    """Three classes in codes with a falling spectrum."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 640)
    rows = (2 * rng.normal(size=(3, K))[labels] + rng.normal(size=(640, K))) * np.arange(1, K + 1) ** -0.7
    parts = {"gallery_labels": labels[:600], "query_labels": labels[600:], "eigenvalues": np.linspace(1, 0.2, K)}
    np.savez(tmp_path / "codes.npz", gallery=rows[:600], queries=rows[600:], t=2.0, **parts)
    return tmp_path / "codes.npz"


def test_scores_of_the_full_codes_are_those_of_retrieval(codes_file: Path) -> None:
    codes = Codes.load(codes_file)
    found = rankings.ranked(codes, None)["cosine"]
    scores = rankings.scores(codes, found, found[:, :10])
    labels = codes.query_labels, codes.gallery_labels
    (row,) = retrieval(codes.queries, codes.gallery, *labels, dims=[K], top=(10, 1000))
    for name in ("map_over_found@1000", "precision@10"):
        np.testing.assert_allclose(scores[name].mean(), row[name], atol=1e-6)
    assert (scores["recall@10"] == 1).all()
    assert np.allclose(rankings.scores(codes, found, found[:, 5:15])["recall@10"], 0.5)


def test_both_rankings_are_stored_and_shown(codes_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rankings, "BYTES", (4,))
    words = ["measure", "rankings", str(codes_file), "--name", "lite-coco", "--folder", str(tmp_path)]
    monkeypatch.setattr("sys.argv", words)
    measure.main()
    row = json.loads((tmp_path / "search-lite-coco-rankings.json").read_text())["rows"]["4 bytes"]
    by = rankings.ranked(Codes.load(codes_file), 4)
    assert not np.array_equal(by["cosine"], by["relevance"])
    for metric in ("map_over_found@1000", "precision@10", "recall@10"):
        told = row[metric]
        assert told["gain"] == pytest.approx(told["cosine"] - told["relevance"], abs=1e-4) and 0 < told["error"] < 0.1
    assert row["recall@10"]["gain"] > 0
    text = tables.tables(tmp_path)
    assert "| COCO, EfficientNet-Lite0 | float32 |" in text and "| COCO, EfficientNet-Lite0 | 4 |" in text
    assert "| CIFAR-10, EfficientNet-Lite0 | not run |" in text


@pytest.mark.parametrize("by", ["laptop", "lite"])
def test_codes_of_photos_are_a_file_of_codes(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (330, 16, 16, 3)).astype(np.uint8)
    labels = rng.integers(0, 4, 330)
    np.savez(tmp_path / "set.npz", train_x=images[:310], train_y=labels[:310], test_x=images[310:], test_y=labels[310:])
    monkeypatch.setattr(photos, "GALLERY", 300)
    monkeypatch.setattr(photos, "QUERIES", 10)
    monkeypatch.setattr(photos, "COMPONENTS", 8)
    monkeypatch.setattr(photos, "fit_images", partial(fit_images, steps=2, n_components=8, progress=False))
    seen = []

    def features(shown: object, weights: Path) -> np.ndarray:
        seen.append(np.stack([np.asarray(picture) for picture in shown]))  # type: ignore[attr-defined]
        return seen[-1].mean((1, 3)).astype(np.float32)

    monkeypatch.setattr(photos, "features", features)
    photos.main(
        [
            *(str(tmp_path / "set.npz"), str(tmp_path / "codes.npz")),
            *(["--efficientnet", "weights.pth"] if by == "lite" else []),
        ]
    )
    codes = Codes.load(tmp_path / "codes.npz")
    assert len(codes.gallery) == len(codes.gallery_labels) == 300 and len(codes.queries) == 10
    np.testing.assert_array_equal(codes.gallery_labels, labels[photos.chosen(310, 300)])
    if by == "lite":
        gallery, _, mirrored = seen
        np.testing.assert_array_equal(mirrored, gallery[:, :, ::-1])
