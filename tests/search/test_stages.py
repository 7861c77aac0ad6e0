from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eigenmap import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.search.backend import Stage
from eigenmap.search.stages import measure_recall, search_stages


@pytest.mark.parametrize(
    ("asked", "stages"),
    [
        ({}, [(64, 10)]),
        ({"top": 3, "dim": 8}, [(8, 3)]),
        ({"dim": 32, "shortlist_dim": 4, "shortlist": 100}, [(4, 100), (32, 10)]),
        ({"funnel": [(4, 100), (64, 7)]}, [(4, 100), (64, 7)]),
        ({"funnel": [(4, 100), (64, 7)], "top": 5}, [(4, 100), (64, 5)]),
    ],
)
def test_stages(asked: dict[str, Any], stages: list[tuple[int, int]]) -> None:
    assert search_stages(64, **asked) == [Stage(*stage) for stage in stages]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"top": 0}, "top.*0"),
        ({"dim": 65}, "dim.*65"),
        ({"shortlist": 100}, "shortlist_dim= and shortlist="),
        ({"shortlist_dim": 9, "shortlist": 100, "dim": 8}, "shortlist_dim.*9"),
        ({"shortlist_dim": 4, "shortlist": 9}, "shortlist.*9"),
        ({"funnel": [(4, 100)], "dim": 4}, "funnel.*dim"),
    ],
)
def test_stages_that_cannot_be(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(EigenmapError, match=words):
        search_stages(64, **asked)


def test_recall_against_a_slow_loop() -> None:
    codes = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    index = CodeIndex(8)
    index.add(codes, range(60))
    stages = [Stage(2, 12), Stage(8, 5)]

    def ranked(query: int, dim: int, among: list[int]) -> list[int]:
        cut = codes[:, :dim].astype(np.float64)
        unit = cut / np.linalg.norm(cut, axis=1, keepdims=True)
        return sorted(among, key=lambda row: -unit[query] @ unit[row])

    shares = []
    for query in range(60):
        others = [row for row in range(60) if row != query]
        shortlist = ranked(query, 2, others)[:12]
        shares.append(len({*ranked(query, 8, shortlist)[:5]} & {*ranked(query, 8, others)[:5]}) / 5)
    assert 0.2 < np.mean(shares) < 1
    assert measure_recall(index.backend, stages, queries=60, seed=0) == pytest.approx(np.mean(shares))
    assert index.recall(funnel=stages, queries=60) == pytest.approx(np.mean(shares))


def test_recall_of_a_single_item_is_complete_and_of_none_is_refused() -> None:
    index = CodeIndex(4)
    with pytest.raises(EigenmapError, match="empty"):
        index.recall()
    index.add(np.eye(4)[:1], ["a"])
    assert index.recall(shortlist_dim=2, shortlist=20) == 1.0


def test_recall_by_inner_product_compares_as_many_items_as_asked() -> None:
    """A code need not be among its own best results, which are then all kept unless they are cut."""
    codes = np.random.default_rng(0).normal(size=(80, 8)).astype(np.float32)
    codes[::2] /= 50
    index = CodeIndex(8, "inner")
    index.add(codes, range(80))
    scores = codes.astype(np.float64) @ codes.T.astype(np.float64)
    np.fill_diagonal(scores, -np.inf)
    truth = np.argsort(-scores, axis=1)[:, :3]
    rough = codes[:, :2].astype(np.float64) @ codes[:, :2].T.astype(np.float64)
    shares = []
    for query in range(80):
        near = np.argsort(-rough[query])[:7].tolist()  # one more, which may be the query itself
        best = sorted({*near} - {query}, key=lambda row: -scores[query, row])[:3]
        shares.append(len({*best} & {*truth[query].tolist()}) / 3)
    found = index.recall(3, shortlist_dim=2, shortlist=6, queries=80)
    assert found == pytest.approx(np.mean(shares))
