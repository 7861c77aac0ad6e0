"""Search for partners against a slow loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.linear.finding import Judge, judged_lengths, ndcg


def slow(similarity: np.ndarray, relevant: np.ndarray, top: int = 10) -> float:
    scores = []
    for row, wanted in zip(similarity, relevant, strict=True):
        if not wanted.any():
            continue
        order = np.argsort(-row)[:top]
        gain = sum(1 / math.log2(rank + 2) for rank, item in enumerate(order) if wanted[item])
        scores.append(gain / sum(1 / math.log2(rank + 2) for rank in range(min(top, wanted.sum()))))
    return float(np.mean(scores))


def test_ndcg_is_that_of_a_slow_loop() -> None:
    rng = np.random.default_rng(0)
    similarity = rng.normal(size=(40, 60))
    for relevant in (rng.random((40, 60)) < 0.05, rng.random((40, 60)) < 0.5, np.eye(40, 60) > 0):
        found = ndcg(torch.from_numpy(similarity), torch.from_numpy(relevant))
        assert math.isclose(found, slow(similarity, relevant), abs_tol=1e-12)


def test_codes_are_cut_first_and_compared_by_cosine() -> None:
    rng = np.random.default_rng(0)
    left, right = (torch.from_numpy(rng.normal(size=(30, 8)) * 4.0 ** -np.arange(8)) for _ in range(2))
    one, several = torch.eye(30, dtype=torch.bool), torch.from_numpy(rng.random((30, 30)) < 0.2)
    for relevant in (one, several):
        found = Judge(left, right, relevant).scores(left, right, [8, 2])
        assert list(found) == [8, 2]
        for d in (2, 8):
            a, b = (side[:, :d].numpy() for side in (left, right))
            a, b = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (a, b))
            assert math.isclose(found[d], slow(a @ b.T, relevant.numpy()), abs_tol=1e-12)


def test_what_ties_with_the_partner_comes_before_it() -> None:
    rows = torch.ones(20, 2)
    assert Judge(rows, rows, torch.eye(20, dtype=torch.bool)).scores(rows, rows, [1, 2]) == {1: 0.0, 2: 0.0}


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1e-9, 1.0])
def test_scores_do_not_depend_on_the_size_of_codes(size: float) -> None:
    """Of old, cosines of one feature were ranked by their rounding errors, and small codes by inner products."""
    rng = np.random.default_rng(0)
    left = torch.from_numpy(rng.normal(size=(60, 4)))
    right = left + torch.from_numpy(rng.normal(size=(60, 4))) / 2
    right = right * torch.from_numpy(rng.lognormal(size=(60, 1)))
    own = torch.eye(60, dtype=torch.bool)
    assert Judge(left, right, own).scores(size * left, size * right, [1])[1] == 0.0
    cosine = torch.nn.functional.normalize(left, dim=1) @ torch.nn.functional.normalize(right, dim=1).T
    assert math.isclose(Judge(left, right, own).scores(size * left, size * right, [4])[4], ndcg(cosine, own))


def test_a_query_is_left_out_of_its_own_ranking() -> None:
    rows = torch.eye(4)
    relevant = ~torch.eye(4, dtype=torch.bool)
    found = Judge(rows, rows, relevant, own=~relevant)
    assert found.scores(rows, rows, [4]) == {4: 1.0} and found.recall(rows, rows, [4]) == {4: 1.0}


def test_lengths_are_doubled_up_to_all_features() -> None:
    assert judged_lengths(384) == [8, 16, 32, 64, 128, 256, 384]
    assert judged_lengths(3) == [1, 2, 3] and judged_lengths(16) == [8, 16] and judged_lengths(1) == [1]


def test_numbers_too_large_to_compare_are_refused() -> None:
    """Products that overflow have no rank, and the best score of all."""
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 4)))
    own = torch.eye(20, dtype=torch.bool)
    plain = Judge(rows, rows, own).scores(rows, rows, [4])
    assert Judge(rows, rows, own).scores(1e15 * rows, 1e15 * rows, [4]) == plain
    for left, right in ((1e20 * rows, rows), (rows, 1e20 * rows), (1e60 * rows, rows)):
        with pytest.raises(EigenmapError, match="too large for float32; scale them down"):
            Judge(rows, rows, own).scores(left, right, [4])
