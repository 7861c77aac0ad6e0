from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from eigenmap import EigenmapError
from eigenmap.data.graphs.adjacency import Adjacency, build_adjacency
from eigenmap.relations import propagation
from eigenmap.relations.propagation import Propagation, Smoothing, blocks_of_columns, row_strips
from tests.relations.dense_propagation import edge_list, propagated, random_weights, smoothing

WAYS = [
    Propagation(),
    Propagation("S"),
    Propagation("S2"),
    Propagation("concat"),
    Propagation("pagerank", 0.1),
    Propagation("pagerank", 0.5),
]


def walk_of(W: np.ndarray, weighted: bool) -> Adjacency:
    index, weights = edge_list(W)
    return build_adjacency(torch.from_numpy(index), len(W), torch.from_numpy(weights) if weighted else None)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.in_words)
@pytest.mark.parametrize("strip", [3, 1 << 22])
def test_every_way_is_the_dense_product(
    way: Propagation, weighted: bool, strip: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(propagation, "STRIP", strip)
    W = random_weights(30, 40, weighted=weighted)  # some nodes have no edge
    h = np.random.default_rng(1).normal(size=(30, 5))
    own = h.astype(np.float32)
    y = way.apply(Smoothing.of(walk_of(W, weighted)), own)
    np.testing.assert_array_equal(own, h.astype(np.float32))  # averages are computed in place, but not in the codes
    np.testing.assert_allclose(y, propagated(way.way, way.restart, smoothing(W), h), atol=2e-6)


def test_only_ratios_of_weights_matter() -> None:
    W = random_weights(20, 30, weighted=True)
    h = np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32)
    first = Smoothing.of(walk_of(W, True))(h)
    for scale in (1000.0, 1e-50, 1e50, 1e150):  # the products are float32
        np.testing.assert_allclose(Smoothing.of(walk_of(scale * W, True))(h), first, atol=1e-6)


def test_columns_are_independent() -> None:
    smooth = Smoothing.of(walk_of(random_weights(20, 30), False))
    h = np.random.default_rng(1).normal(size=(20, 6)).astype(np.float32)
    way = Propagation("pagerank", 0.2)
    parts = [
        way.apply(smooth, np.ascontiguousarray(h[:, columns])) for columns in blocks_of_columns(20, 6, 2 * 20 * 20)
    ]
    assert [part.shape[1] for part in parts] == [2, 2, 2]
    np.testing.assert_array_equal(np.concatenate(parts, 1), way.apply(smooth, h))


def test_blocks_and_strips_cover_everything_once() -> None:
    assert blocks_of_columns(1000, 3, 1) == [slice(0, 1), slice(1, 2), slice(2, 3)]
    assert blocks_of_columns(0, 3, 1 << 20) == [slice(0, 3)] and blocks_of_columns(5, 0, 100) == []
    assert blocks_of_columns(10, 32, 29 * 20 * 10) == [slice(0, 16), slice(16, 32)]  # not 29 and 3
    indptr = np.array([0, 0, 5, 5, 6, 20, 20])
    strips = list(row_strips(indptr, 4))
    assert strips[0][0] == 0 and strips[-1][1] == 6
    assert all(a[1] == b[0] for a, b in pairwise(strips))


def test_a_graph_of_directions_is_refused() -> None:
    walk = build_adjacency(torch.tensor([[0, 1], [2, 2]]), 3, directed="bipartite")
    with pytest.raises(EigenmapError, match="undirected"):
        Smoothing.of(walk)


@pytest.mark.parametrize("restart", [0.0, 1.0, float("nan"), "x"])
def test_a_restart_that_is_none(restart: float) -> None:
    with pytest.raises(EigenmapError, match="restart must be a probability"):
        Propagation("pagerank", restart)


def test_an_unknown_way() -> None:
    with pytest.raises(EigenmapError, match=r"neighbours.*concat.*'mean'"):
        Propagation("mean")  # type: ignore[arg-type]
