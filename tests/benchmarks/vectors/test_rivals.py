"""Rivals against scikit-learn, and against what they are for."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

from benchmarks.vectors import rivals, trained
from benchmarks.vectors.scores import by_length, ndcg
from benchmarks.vectors.sets import Pairs, split

from .data import pairs


def same_up_to_sign(a: np.ndarray, b: np.ndarray, tolerance: float) -> None:
    np.testing.assert_allclose(a * np.sign((a * b).sum(0)), b, atol=tolerance * np.abs(b).max())


def test_principal_components_are_those_of_scikit_learn() -> None:
    from sklearn.decomposition import PCA

    both = pairs()
    rows = np.concatenate(both)
    for whitened in (False, True):
        ours = rivals.pca(both, 0, whitened)(rows, "left", 5)
        theirs = PCA(5, whiten=whitened, svd_solver="full").fit_transform(rows)
        same_up_to_sign(ours, theirs, 1e-2)


def test_canonical_variates_have_the_correlations_of_scikit_learn() -> None:
    both = pairs(2000, features=10, shared=3)
    ours, theirs = ([encode(side, name, 3) for side, name in zip(both, ("left", "right"), strict=True)]
        for encode in (rivals.cca(both, 0), _sklearn(both)))  # fmt: skip
    correlations = [[np.corrcoef(a, b)[0, 1] for a, b in zip(x.T, y.T, strict=True)] for x, y in (ours, theirs)]
    np.testing.assert_allclose(correlations[0], sorted(correlations[1], reverse=True), atol=5e-3)


def test_codes_of_cca_zoo_are_those_of_either_side(monkeypatch: pytest.MonkeyPatch) -> None:
    class CCA:
        """What cca-zoo's class takes and returns."""

        def __init__(self, n_components: int) -> None:
            self.count = n_components

        def fit(self, views: list[np.ndarray]) -> CCA:
            assert [view.dtype for view in views] == [np.float64] * 2
            return self

        def transform(self, views: list[np.ndarray]) -> list[np.ndarray]:
            return [views[0][:, : self.count], -views[1][:, : self.count]]

    monkeypatch.setitem(sys.modules, "cca_zoo", ModuleType("cca_zoo"))
    monkeypatch.setitem(sys.modules, "cca_zoo.linear", module := ModuleType("cca_zoo.linear"))
    module.CCA = CCA  # type: ignore[attr-defined]
    both = pairs()
    encode = rivals.cca_zoo(both, 0)
    np.testing.assert_allclose(encode(both.left, "left", 4), both.left[:, :4])
    np.testing.assert_allclose(encode(both.right, "right", 4), -both.right[:, :4])


def _sklearn(both: Pairs):  # type: ignore[no-untyped-def]
    rivals_count = rivals.MOST_COMPONENTS
    try:
        rivals.MOST_COMPONENTS = 3
        encode = rivals.cca_sklearn(both, 0)
        with pytest.raises(ValueError, match="4 features"):
            encode(both.left, "left", 4)
        return encode
    finally:
        rivals.MOST_COMPONENTS = rivals_count


def test_random_projections_keep_products_on_average() -> None:
    x = np.random.default_rng(0).normal(size=(5, 2000)).astype(np.float32)
    codes = rivals.random_projection(Pairs(x, x), 0)(x, "left", 2000) / np.sqrt(2000)
    np.testing.assert_allclose(codes @ codes.T / 2000, x @ x.T / 2000, atol=0.2)


def test_a_matryoshka_head_learns_from_pairs_what_principal_components_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trained, "RATES", (1e-2,))
    parts = split(pairs(1200), 0, test=200)
    head, pca = trained.matryoshka(parts.fit, 0, trained.Budget(150, 512)), rivals.pca(parts.fit, 0)
    assert ndcg(head, parts.test, [8]) > ndcg(pca, parts.test, [8]) + 0.1


def test_sparse_codes_have_as_many_entries_as_asked_for() -> None:
    both = pairs(300)
    encode = trained.csr(both, 0, trained.Budget(30, 512))
    codes = encode(both.left, "left", 8)
    assert codes.shape == (300, 4 * 24) and ((codes != 0).sum(1) <= 8).all() and (codes >= 0).all()
    assert set(by_length(encode, both, [8])["8"]) == {"ndcg@10", "recall@10", "mrr"}


def test_the_largest_entries_are_kept() -> None:
    import torch

    kept = trained.sparse(torch.tensor([[1.0, 3.0, 2.0], [0.0, 0.0, 5.0]]), 2)
    assert kept.tolist() == [[0.0, 3.0, 2.0], [0.0, 0.0, 5.0]]
