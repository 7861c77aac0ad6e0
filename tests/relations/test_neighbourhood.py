from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from eigenmap import EigenmapError
from eigenmap.data.graphs.adjacency import build_adjacency
from eigenmap.data.graphs.graph import load_graph
from eigenmap.relations import neighbourhood
from eigenmap.relations.neighbourhood import Edges, missing_nodes, new_edges, new_nodes
from eigenmap.relations.propagation import Matrix, Propagation, Smoothing
from tests.relations.dense_propagation import edge_list, propagated, random_weights, smoothing


class Stored:
    """A stored graph in memory: the states of all hops but the last."""

    fingerprint, n_components, path, weighted = "f" * 64, 4, Path("nodes"), False

    def __init__(self, way: Propagation, W: np.ndarray, h: np.ndarray) -> None:
        index, weights = edge_list(W)
        smooth = Smoothing.of(build_adjacency(torch.from_numpy(index), len(W), torch.from_numpy(weights)))
        self.propagation, self.loop, self.d = way, smooth.loop, smooth.degrees
        states = list(way.states(smooth, h.astype(np.float32)))
        self.kept = [states[-2]] * way.hops if way.way == "pagerank" else states[:-1]

    def __len__(self) -> int:
        return len(self.d)

    def degrees(self, nodes: Any) -> Any:
        return self.d[nodes]

    def states(self, nodes: Any) -> list[Matrix]:
        return [state[nodes] for state in self.kept]


def extended(W: np.ndarray, new: int, seed: int = 5) -> np.ndarray:
    """The matrix with new nodes, which know some old ones and each other."""
    rng: Any = np.random.default_rng(seed)
    n = len(W)
    whole = np.zeros((n + new, n + new))
    whole[:n, :n] = W
    for node in range(n, n + new):
        for other in [*rng.choice(n, 3, replace=False), *range(n, node)]:
            whole[node, other] = whole[other, node] = rng.uniform(0.5, 2)
    return whole


def test_one_hop_of_new_nodes_is_that_of_the_whole_graph() -> None:
    W, rng = random_weights(25, 50, weighted=True), np.random.default_rng(2)
    h = rng.normal(size=(28, 4))
    stored = Stored(Propagation("S"), W, h[:25])
    whole = extended(W, 3)
    index, weights = edge_list(whole)
    fresh = (index >= 25).any(0)
    around = new_nodes(Edges(torch.from_numpy(index[:, fresh]), torch.from_numpy(weights[fresh])), stored, 3)
    y = around.states(stored.propagation, h[25:].astype(np.float32), stored.states(around.around))[-1]
    c = stored.loop  # the weight of a self-loop stays that of the stored graph
    looped = whole + c * np.eye(28)
    d = looped.sum(1)
    expected = (looped / np.sqrt(d[:, None] * d[None, :]) @ h)[25:]
    np.testing.assert_allclose(y, expected, atol=1e-6)


@pytest.mark.parametrize("way", [Propagation("S2"), Propagation("pagerank", 0.2)], ids=lambda way: way.in_words)
def test_more_hops_leave_stored_neighbours_as_they_are(way: Propagation) -> None:
    W, rng = random_weights(25, 50), np.random.default_rng(2)
    h = rng.normal(size=(26, 4))
    stored = Stored(way, W, h[:25])
    index = np.array([[25, 25], [3, 7]])
    around = new_nodes(Edges.of(index, 26), stored, 1)
    assert around.around.tolist() == [3, 7]
    y = around.states(way, h[25:].astype(np.float32), stored.states(around.around))[-1][0]
    # By hand, in float64: h^l = step(S row . h^(l-1)), the two neighbours at the states they have in the stored graph.
    degrees = {node: W[node].sum() + 2 for node in (3, 7)}  # a self-loop, and the new edge
    states = [h[:25]]
    for _ in range(way.hops - 1):
        smoothed = smoothing(W) @ states[-1]
        states.append((1 - way.restart) * smoothed + way.restart * h[:25] if way.way == "pagerank" else smoothed)
    own = h[25]
    for hop in range(way.hops):
        state = states[-1] if way.way == "pagerank" else states[hop]
        smoothed = own / 3 + sum(state[node] / np.sqrt(3 * degrees[node]) for node in (3, 7))
        own = (1 - way.restart) * smoothed + way.restart * h[25] if way.way == "pagerank" else smoothed
    np.testing.assert_allclose(y, own, atol=1e-5)


def test_a_node_whose_neighbours_do_not_change_gets_its_code_back() -> None:
    """The boundary is right: a stored node, computed as if it were new, has its own stored propagated code."""
    W = random_weights(20, 60)
    h = np.random.default_rng(3).normal(size=(20, 4))
    way = Propagation("S2")
    S = smoothing(W)
    expected = propagated("S2", 0.0, S, h)[19]
    stored = Stored(way, W, h)
    from eigenmap.relations.neighbourhood import Neighbourhood

    columns = np.nonzero(W[19])[0]
    around = Neighbourhood.of(
        np.array([19]), np.full(len(columns), 19), columns, W[19, columns], stored.degrees, stored.loop
    )
    y = around.states(way, h[19:].astype(np.float32), stored.states(around.around))[-1][0]
    # Its neighbours' first hop knows it already, so that the second is exact.
    np.testing.assert_allclose(y, expected, atol=1e-5)


def test_edges_come_as_arrays_with_weights_or_as_a_matrix() -> None:
    W = random_weights(8, 10, weighted=True)
    index, weights = edge_list(W)
    walks = [
        Edges.of((index, weights), 8).walk(8),
        Edges.of(scipy.sparse.csr_matrix(W), 8).walk(8),
        Edges.of((torch.from_numpy(index), torch.from_numpy(weights)), 8).walk(8),
    ]
    for walk in walks:
        assert walk.edges().tolist() == walks[0].edges().tolist()
        np.testing.assert_allclose(walk.degrees().numpy(), W.sum(1))
    plain = Edges.of(index.tolist(), 8).walk(8)
    np.testing.assert_allclose(plain.degrees().numpy(), (W > 0).sum(1))
    assert Edges.of([[], []], 8).walk(8).n_entries == 0


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([[0, 1], [1, 8]], "edges.* 8.*0 to 7"),
        ([[0, -1], [1, 2]], "edges.* -1"),
        (np.zeros((3, 2), np.int64), r"edges must be whole numbers.*edges\.T"),
        (np.eye(8), r"edges must be whole numbers.*csr_matrix\(edges\)"),
        (np.zeros((2, 2)), "edges must be whole numbers"),
        (scipy.sparse.eye(7), "8 x 8.*7 x 7"),
        (scipy.sparse.eye(8, dtype=complex), "real numbers"),
    ],
)
def test_edges_that_do_not_fit(edges: object, words: str) -> None:
    with pytest.raises(EigenmapError, match=words):
        Edges.of(edges, 8)


def test_an_edge_between_stored_nodes_is_refused() -> None:
    stored = Stored(Propagation("S"), random_weights(10, 20), np.ones((10, 4)))
    with pytest.raises(EigenmapError, match=r"\(3, 4\).*stored nodes"):
        new_edges([[10, 3], [2, 4]], stored, 1)


def test_new_edges_have_weights_if_the_stored_ones_have_them() -> None:
    stored = Stored(Propagation("S"), random_weights(10, 20), np.ones((10, 4)))
    ends, twos = np.array([[10, 10], [2, 4]]), np.full(2, 2.0)
    matrix = scipy.sparse.coo_matrix((twos, ends), shape=(11, 11))
    assert new_edges(ends, stored, 1).weights is None
    assert new_edges(matrix, stored, 1).weights is None  # equal entries, as in the matrix of a graph without weights
    with pytest.raises(EigenmapError, match="nodes have no weights; leave them out"):
        new_edges((ends, twos), stored, 1)
    stored.weighted = True
    for edges in ((ends, twos), matrix):
        weights = new_edges(edges, stored, 1).weights
        assert weights is not None and weights.tolist() == [2, 2]
    assert new_edges([[], []], stored, 1).index.shape == (2, 0)  # nothing to weigh
    with pytest.raises(EigenmapError, match="nodes have weights; give new edges theirs"):
        new_edges(ends, stored, 1)


def test_missing_nodes_are_numbers_or_a_mask() -> None:
    assert missing_nodes([1], 3).tolist() == missing_nodes(np.array([False, True, False]), 3).tolist()
    assert not missing_nodes(None, 3).any()
    with pytest.raises(EigenmapError, match=r"missing.*0 to 2"):
        missing_nodes([3], 3)


@pytest.mark.parametrize("way", [Propagation("S2"), Propagation("pagerank", 0.2)], ids=lambda way: way.in_words)
def test_dense_and_sparse_matrices_of_a_neighbourhood_agree(way: Propagation, monkeypatch: pytest.MonkeyPatch) -> None:
    W, h = random_weights(25, 50), np.random.default_rng(4).normal(size=(28, 4)).astype(np.float32)
    stored = Stored(way, W, h[:25])
    # Repeated edges, both directions and a self-loop count as in any graph.
    index = np.array([[25, 25, 3, 25, 26, 27, 27, 26], [3, 7, 25, 3, 25, 1, 27, 2]])
    found = []
    for most in (neighbourhood.DENSE, 0):
        monkeypatch.setattr(neighbourhood, "DENSE", most)
        around = new_nodes(Edges.of(index, 28), stored, 3)
        assert scipy.sparse.issparse(around.inside) == (most == 0)
        found.append(around.states(way, h[25:], stored.states(around.around))[-1])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    ones = Edges.of((index, np.ones(8)), 28)  # with weights, repeated edges add up
    clean = Edges.of((np.array([[25, 25, 26, 27, 26], [3, 7, 25, 1, 2]]), np.ones(5)), 28)
    weighted, plain = (new_nodes(edges, stored, 3) for edges in (ones, clean))
    assert weighted.around.tolist() == plain.around.tolist() == around.around.tolist() == [1, 2, 3, 7]


@pytest.mark.parametrize(
    "way", [Propagation("S"), Propagation("S2"), Propagation("concat"), Propagation("pagerank", 0.2)]
)
@pytest.mark.parametrize("ends", [[[25, 25, 3, 25], [3, 7, 25, 3]], [[25], [25]], [[25], [4]]])
def test_a_single_new_node_is_the_general_case(way: Propagation, ends: list[list[int]]) -> None:
    W, h = random_weights(25, 50), np.random.default_rng(6).normal(size=(26, 4)).astype(np.float32)
    stored = Stored(way, W, h[:25])
    index = np.array(ends)
    fast = new_nodes(Edges.of(index, 26), stored, 1)
    near = sorted({node for node in index.flatten().tolist() if node < 25})
    there = np.array([[25] * len(near), near])
    each = (np.concatenate([there, there[::-1]], axis=1), np.ones(2 * len(near)))  # weights lead to the general case
    slow = new_nodes(Edges.of(each, 26), stored, 1)
    assert fast.around.tolist() == slow.around.tolist() == near
    for matrix in ("inside", "outside"):
        np.testing.assert_allclose(getattr(fast, matrix), getattr(slow, matrix), atol=1e-7)
    boundary = stored.states(fast.around)
    y = fast.propagated(way, h[25:], boundary)
    np.testing.assert_allclose(y, way.combine(slow.states(way, h[25:], boundary)), atol=1e-6)


def test_repeated_entries_of_a_matrix_add_up_as_when_a_graph_is_loaded() -> None:
    ends = np.array([[0, 1, 0, 1, 1, 2], [1, 0, 1, 0, 2, 1]])  # the edge (0, 1) is listed twice
    matrix = scipy.sparse.coo_matrix((np.ones(6), ends), shape=(3, 3))
    walk, loaded = Edges.of(matrix, 3).walk(3), load_graph(matrix, np.eye(3)).walk()
    for found in (walk, loaded):
        assert found.degrees().tolist() == [2, 3, 1]
    assert matrix.nnz == 6  # the caller's matrix is as it was
