"""Ranks and scores against a sorted list."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.vectors import scores
from benchmarks.vectors.sets import Pairs, held_out, lengths_of, split

from .data import pairs


def test_ranks_are_those_of_a_sorted_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "BLOCK", 7)
    left, right = pairs(50)
    unit = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (left, right)]
    order = np.argsort(-(unit[0] @ unit[1].T), axis=1)
    expected = [1 + list(row).index(k) for k, row in enumerate(order)]
    assert scores.ranks(left, right).tolist() == expected


def test_documents_that_tie_come_first() -> None:
    same = np.ones((3, 2), np.float32)
    assert scores.ranks(same, same).tolist() == [3, 3, 3]


def test_scores_of_ranks_by_hand() -> None:
    found = scores.of_ranks(np.array([1, 2, 10, 11]))
    assert found["ndcg@10"] == pytest.approx((1 + 1 / np.log2(3) + 1 / np.log2(11)) / 4)
    assert found["recall@10"] == 0.75 and found["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 10 + 1 / 11) / 4)


def test_a_split_keeps_partners_together_and_the_test_apart() -> None:
    rows = np.arange(100, dtype=np.float32)[:, None]
    parts = split(Pairs(rows, rows + 0.5), seed=1, test=20)
    inner = held_out(parts.fit, seed=1)
    for part in (parts.fit, parts.test, inner.fit, inner.test):
        np.testing.assert_array_equal(part.left + 0.5, part.right)
    assert sorted(np.concatenate([parts.fit.left, parts.test.left]).ravel()) == list(range(100))
    assert sorted(np.concatenate([inner.fit.left, inner.test.left])) == sorted(parts.fit.left)
    assert split(Pairs(rows, rows), 1, fit=30, test=20).fit.count == 30
    np.testing.assert_array_equal(split(Pairs(rows, rows), 1, fit=30, test=20).test.left, parts.test.left)


def test_lengths_end_at_the_whole_vector() -> None:
    assert lengths_of(24) == [8, 16, 24] and lengths_of(384)[-2:] == [256, 384]
