from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from eigenmap import EigenmapError
from eigenmap.data import Adjacency, build_adjacency
from eigenmap.data.graphs import adjacency

PATH = torch.tensor([[0, 1], [1, 2]])


def dense(a: Adjacency) -> Tensor:
    """The matrix, entry by entry."""
    W = torch.zeros(a.n_nodes, a.n_nodes, dtype=torch.float64)
    for row in range(a.n_nodes):
        for entry in range(int(a.indptr[row]), int(a.indptr[row + 1])):
            W[row, int(a.indices[entry])] += float(a.weights(torch.tensor([entry])))
    return W


edge_lists = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=30)


@given(edge_lists, st.booleans(), st.sampled_from(["remove", "keep"]), st.sampled_from(["symmetrise", "bipartite"]))
def test_it_is_the_matrix_of_a_slow_loop(
    edges: list[tuple[int, int, int]], weighted: bool, self_loops: str, directed: str
) -> None:
    W = torch.zeros(6, 6, dtype=torch.float64)
    for a, b, w in edges:
        if a != b or self_loops == "keep":
            W[a, b] = W[a, b] + w if weighted else 1.0
    W = W.T if directed == "bipartite" else (W + W.T) / 2 if weighted else torch.maximum(W, W.T)
    index = torch.tensor([[a, b] for a, b, _ in edges]).T
    weights = torch.tensor([float(w) for *_, w in edges]) if weighted else None
    if not bool(W.any()):
        with pytest.raises(EigenmapError, match="no edges"):
            build_adjacency(index, 6, weights, directed, self_loops)  # type: ignore[arg-type]
        return
    found = build_adjacency(index, 6, weights, directed, self_loops)  # type: ignore[arg-type]
    torch.testing.assert_close(dense(found), W)
    torch.testing.assert_close(found.degrees(), W.sum(1))
    assert found.symmetric == (directed == "symmetrise")
    assert found.loops == (0 if self_loops == "keep" else sum(a == b for a, b, _ in edges))
    kept = [(a, b) for a, b, _ in edges if a != b or self_loops == "keep"]
    assert found.merged == len(kept) - len(set(kept))
    rows, columns = found.edges()
    torch.testing.assert_close(found.rows_of(torch.arange(found.n_entries)), rows)
    assert bool((W[rows, columns] > 0).all())


def test_one_direction_or_both_give_the_same() -> None:
    once, twice = build_adjacency(PATH, 3), build_adjacency(torch.cat([PATH, PATH.flip(0)], 1), 3)
    torch.testing.assert_close(dense(once), dense(twice))
    assert once.merged == twice.merged == 0


def test_a_self_loop_counts_once() -> None:
    a = build_adjacency(torch.tensor([[0, 0], [0, 1]]), 2, self_loops="keep")
    assert a.degrees().tolist() == [2, 1]


@pytest.mark.parametrize("weighted", [False, True])
def test_draws_cover_the_ends_of_the_unit_interval(weighted: bool) -> None:
    weights = torch.tensor([0.1, 1e-9]) if weighted else None
    a = build_adjacency(PATH, 5, weights)
    ends = torch.tensor([0.0, 0.5, 1 - 2**-53], dtype=torch.float64)
    assert set(a.centre(ends).tolist()) <= {0, 1, 2}
    for node, neighbours in {0: {1}, 1: {0, 2}, 2: {1}}.items():
        assert set(a.neighbour(torch.full((3,), node), ends).tolist()) <= neighbours


@pytest.mark.parametrize(
    ("edges", "nodes", "message"),
    [
        (torch.tensor([[0, 3], [1, 0]]), 3, "node 3.*0 to 2"),
        (torch.tensor([[0, -1], [1, 0]]), 3, "names node -1"),
        (torch.tensor([[0.5], [1.0]]), 3, "whole numbers"),
        (torch.tensor([0, 1]), 3, r"\(2, edges\)"),
        (torch.empty(2, 0, dtype=torch.int64), 3, "no edges"),
        (torch.tensor([[0], [0]]), 3, "no edges"),
        (torch.tensor([[0], [0]]), 0, "no nodes"),
    ],
)
def test_bad_edges(edges: Tensor, nodes: int, message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        build_adjacency(edges, nodes)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -2.0], [1.0, float("nan")]])
def test_bad_weights(weights: list[float]) -> None:
    with pytest.raises(EigenmapError, match="weight"):
        build_adjacency(PATH, 3, torch.tensor(weights))


def test_an_unknown_kind_of_direction() -> None:
    with pytest.raises(EigenmapError, match="symmetrise"):
        build_adjacency(PATH, 3, directed="both")  # type: ignore[arg-type]


def test_large_whole_weights_keep_all_their_digits() -> None:
    a = build_adjacency(torch.tensor([[0, 1], [1, 2]]), 3, torch.tensor([2**24 + 1, 1]))
    assert (2 * a.weights(torch.arange(4))).tolist() == [2**24 + 1, 2**24 + 1, 1, 1]


def test_complex_weights_are_refused() -> None:
    with pytest.raises(EigenmapError, match="finite"):
        build_adjacency(torch.tensor([[0], [1]]), 2, torch.tensor([1 + 0j]))


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(
            st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), min_size=1, max_size=20)
        )
    ),
    st.sampled_from(["symmetrise", "bipartite"]),
    st.sampled_from([1, 3, 100]),
)
def test_components_are_those_of_networkx_however_thin_the_strips(
    graph: tuple[int, list[tuple[int, int]]], directed: Any, entries: int
) -> None:
    n, edges = graph
    a = build_adjacency(torch.tensor(edges).T, n, directed=directed, self_loops="keep")
    rows, columns = zip(*a.strips(entries), strict=True)
    assert torch.equal(torch.stack([torch.cat(rows), torch.cat(columns)]), a.edges())
    known = nx.Graph(edges)
    known.add_nodes_from(range(n))
    found, label = a.components(entries)
    parts = {frozenset((label == number).nonzero().flatten().tolist()) for number in range(found)}
    assert parts == {frozenset(part) for part in nx.connected_components(known)}


@pytest.mark.parametrize("directed", ["symmetrise", "bipartite"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_large_list_is_sorted_in_parts_with_the_same_result(
    directed: Any, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(30, (2, 400), generator=generator)
    edges[0, :60] = 7  # a row that is longer than a part
    weights = torch.randint(1, 9, (400,), generator=generator).double() if weighted else None
    whole = build_adjacency(edges, 33, weights, directed)
    ticks: list[tuple[int, int]] = []
    monkeypatch.setattr(adjacency, "PIECE", 50)
    parts = build_adjacency(edges, 33, weights, directed, progress=lambda *given: ticks.append(given))
    assert torch.equal(parts.indptr, whole.indptr) and torch.equal(parts.indices, whole.indices)
    assert (parts.merged, parts.loops) == (whole.merged, whole.loops)
    if weighted:
        assert parts.cumulative is not None and whole.cumulative is not None
        torch.testing.assert_close(parts.cumulative, whole.cumulative, atol=1e-9, rtol=0)
    assert len(ticks) > 5 and ticks == sorted(ticks) and ticks[-1][0] == ticks[-1][1]


def test_counting_components_and_checking_mirrors_report_how_far_they_are() -> None:
    walk = build_adjacency(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), 4)
    ticks: list[tuple[int, int]] = []
    walk.components(entries=3, progress=lambda *given: ticks.append(given))
    assert ticks[0][0] < 8 and ticks[-1] == (8, 8)
    assert walk.mirrored(lambda *given: ticks.append(given)) and ticks[-1] == (8, 8)
