"""Scores of functions that are known to be right, wrong, repeated, rotated or missing."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from benchmarks.eigenfunctions.problems import PROBLEMS, Truth
from benchmarks.eigenfunctions.scores import Found, aligned, held_out_score, rayleigh, scores

K = 3


def known(mu: list[float]) -> Truth:
    """Five states of unequal weight and orthonormal functions of them."""
    weights = torch.tensor([0.1, 0.2, 0.3, 0.25, 0.15], dtype=torch.float64)
    random = torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    phi = torch.linalg.qr(random).Q / weights.sqrt()[:, None]
    return Truth(torch.arange(5.0)[:, None], weights, torch.tensor(mu, dtype=torch.float64), phi[:, : len(mu)])


SIMPLE = known([0.9, 0.5, 0.2, 0.1])
DOUBLE = known([0.9, 0.5, 0.49, 0.1])


def score(psi: Tensor, truth: Truth, mu: list[float] | None = None) -> dict[str, list[float]]:
    eigenvalues = truth.mu[: psi.shape[1]] if mu is None else torch.tensor(mu, dtype=torch.float64)
    return scores(Found(psi, eigenvalues), truth, K)


def test_the_truth_scores_one_whatever_its_scale_and_sign() -> None:
    found = score(SIMPLE.phi[:, :K] * torch.tensor([3.0, -0.1, 1e-8]), SIMPLE)
    assert found["alignment"] == pytest.approx([1, 1, 1])
    assert found["eigenvalue_error"] == pytest.approx([0, 0, 0])
    assert found["off_diagonal"] == pytest.approx(0, abs=1e-12)


def test_a_mixture_and_a_repetition() -> None:
    phi = SIMPLE.phi
    mixed = (phi[:, 0] + phi[:, 1]) / math.sqrt(2)
    found = score(torch.stack([mixed, mixed, phi[:, 0]], 1), SIMPLE, [0.45, 1.0, -0.2])
    assert found["alignment"] == pytest.approx([math.sqrt(0.5), math.sqrt(0.5), 0], abs=1e-12)
    assert found["eigenvalue_error"] == pytest.approx([0.5, 1.0, 2.0])
    assert found["off_diagonal"] == pytest.approx(1)


def test_a_rotation_inside_an_eigenspace_is_right_and_a_repetition_is_not() -> None:
    phi, s = DOUBLE.phi, math.sqrt(0.5)
    rotated = torch.stack([phi[:, 0], s * (phi[:, 1] + phi[:, 2]), s * (phi[:, 1] - phi[:, 2])], 1)
    assert score(rotated, DOUBLE)["alignment"] == pytest.approx([1, 1, 1])
    assert score(phi[:, [0, 1, 1]], DOUBLE)["alignment"] == pytest.approx([1, 1, 0])
    assert DOUBLE.groups(K) == [[0], [1, 2]] and SIMPLE.groups(K) == [[0], [1], [2]]


def test_a_group_may_reach_beyond_the_last_feature() -> None:
    truth = known([0.9, 0.5, 0.2, 0.199, 0.1])
    assert truth.groups(K)[-1] == [2, 3]
    assert score(truth.phi[:, [0, 1, 3]], truth)["alignment"] == pytest.approx([1, 1, 1])


def test_missing_features_count_nothing() -> None:
    found = score(SIMPLE.phi[:, :2], SIMPLE)
    assert found["alignment"] == pytest.approx([1, 1, 0])
    assert found["eigenvalue_error"] == pytest.approx([0, 0, 1])


def test_alignment_recovers_a_rotated_basis() -> None:
    problem = PROBLEMS["rbf-1d-0.3"]
    sample = problem.sample(200, seed=0)
    mu, vectors = torch.linalg.eigh(sample.gram / 200)
    basis = vectors.flip(1)[:, :6] * 200**0.5
    mixing = torch.randn(6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rotation, found = aligned(basis @ mixing, sample.gram, 4)
    torch.testing.assert_close(found, mu.flip(0)[:4])
    overlaps = ((basis @ mixing @ rotation).T @ basis[:, :4] / 200).abs()
    torch.testing.assert_close(overlaps, torch.eye(4).double(), rtol=0, atol=1e-6)
    torch.testing.assert_close(rayleigh(basis, sample.gram), mu.flip(0)[:6])


def test_the_held_out_score_prefers_the_better_span() -> None:
    problem = PROBLEMS["rbf-1d-0.3"]
    sample = problem.sample(200, seed=0)
    _, vectors = torch.linalg.eigh(sample.gram)
    good, worse = vectors.flip(1)[:, :4], vectors.flip(1)[:, [0, 1, 2, 9]]
    assert held_out_score(good, sample.gram) > held_out_score(worse, sample.gram)
    assert held_out_score(good[:, [0, 1, 2, 2]], sample.gram) < -2  # a repetition is a feature of no eigenvalue
