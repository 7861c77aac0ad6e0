from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eigenmap import Eigenmap, EigenmapError, GraphEigenmap, fit_graph
from eigenmap.fitting import neighbours
from eigenmap.fitting.neighbours import best_of, judge, reciprocal_ranks, sample_graph, shared, surroundings
from eigenmap.relations.graph import GraphPairs, hold_out_edges
from eigenmap.relations.propagation import Propagation, Smoothing
from eigenmap.spectrum import unit_rms_rows
from tests.graphs import Blocks, blocks
from tests.relations.dense_propagation import propagated, smoothing, unit

SMALL: dict[str, Any] = {"width": 16, "blocks": 1, "batch_size": 128, "device": "cpu", "progress": False, "steps": 60}
ALIKE = blocks(600, degree=10)


def unrelated() -> Blocks:
    """Graph whose edges are unrelated to the features."""
    rng: Any = np.random.default_rng(7)
    return Blocks(rng.normal(size=(400, 8)).astype(np.float32), rng.integers(400, size=(2, 2000)), np.arange(400) % 3)


@pytest.fixture(scope="module")
def model() -> Eigenmap:
    return fit_graph((ALIKE.x, ALIKE.edge_index), 6, **SMALL)


def dense(graph: Blocks) -> np.ndarray:
    W = np.zeros((len(graph.x),) * 2)
    a, b = graph.edge_index
    W[a, b] = W[b, a] = 1
    np.fill_diagonal(W, 0)
    return W


def test_neighbours_are_used_where_they_are_alike_and_not_where_they_are_not(model: Eigenmap) -> None:
    about = model.training["neighbours"]
    assert model.neighbours.propagation.way != "none" and about["shared"] > neighbours.SHARED
    assert [score["way"] for score in about["scores"]][:4] == ["none", "S", "S2", "concat"]
    assert about["chosen"] == model.neighbours.propagation.in_words
    graph = unrelated()
    said: list[str] = []
    other = fit_graph((graph.x, graph.edge_index), 6, say=said.append, **SMALL)
    assert other.neighbours.propagation.way == "none" and other.training["neighbours"]["shared"] < 0.1
    assert said[-1].endswith("way to use neighbours: none.")
    np.testing.assert_allclose(other.encode(graph.x, edges=graph.edge_index), other.encode(graph.x), atol=1e-6)


def test_codes_with_edges_are_the_dense_product_realigned(model: Eigenmap) -> None:
    how = model.neighbours
    own = model.encode(ALIKE.x).astype(np.float64)
    y = unit(propagated(how.propagation.way, how.propagation.restart, smoothing(dense(ALIKE)), own))
    assert how.alignment is not None
    expected = how.alignment.apply(unit_rms_rows(torch.from_numpy(y)))
    codes = model.encode(ALIKE.x, edges=ALIKE.edge_index)
    np.testing.assert_allclose(codes, expected.numpy(), atol=1e-5)
    short = model.encode(ALIKE.x, 2, edges=ALIKE.edge_index)
    np.testing.assert_allclose(short, unit(codes[:, :2]), atol=1e-5)


def test_codes_with_edges_tell_blocks_apart_better(model: Eigenmap) -> None:
    def separation(codes: np.ndarray) -> float:
        centres = np.stack([codes[ALIKE.y == c].mean(0) for c in range(3)])
        nearest = ((codes[:, None] - centres) ** 2).sum(2).argmin(1)
        return float((nearest == ALIKE.y).mean())

    plain, with_edges = model.encode(ALIKE.x, 2), model.encode(ALIKE.x, 2, edges=ALIKE.edge_index)
    assert separation(with_edges) > separation(plain) + 0.05


def test_the_choice_is_stored_with_the_model(model: Eigenmap, tmp_path: Path) -> None:
    model.save(tmp_path / "run")
    loaded = Eigenmap.load(tmp_path / "run")
    assert loaded.neighbours.propagation == model.neighbours.propagation
    edges = ALIKE.edge_index
    np.testing.assert_array_equal(loaded.encode(ALIKE.x, edges=edges), model.encode(ALIKE.x, edges=edges))
    assert model.neighbours.alignment is not None
    mu = model.neighbours.alignment.eigenvalues
    assert bool((mu[:2] > 0.3).all())


@pytest.mark.parametrize("way", ["none", "S", "S2", "concat", "pagerank"])
def test_a_way_can_be_asked_for(way: str, tmp_path: Path) -> None:
    made = fit_graph((ALIKE.x, ALIKE.edge_index), 6, **{**SMALL, "steps": 4}, neighbours=way, restart=0.3)
    assert made.neighbours.propagation == Propagation(way, 0.3 if way == "pagerank" else 0.0)  # type: ignore[arg-type]
    made.save(tmp_path / "run")
    codes = Eigenmap.load(tmp_path / "run").encode(ALIKE.x, edges=ALIKE.edge_index)
    assert codes.shape == (600, 6)
    np.testing.assert_allclose(np.linalg.norm(codes, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("settings", [{"directed": "bipartite"}, {"held_out": 0.0}])
def test_a_way_that_cannot_be_used_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(EigenmapError, match=r'neighbours="S" needs directed="symmetrise" and held-out edges'):
        fit_graph("nowhere.npz", neighbours="S", **settings)
    made = fit_graph((ALIKE.x, ALIKE.edge_index), 6, **{**SMALL, "steps": 4}, neighbours="none", **settings)
    assert made.neighbours.propagation == Propagation()


def test_invalid_settings_are_refused_before_anything_is_read() -> None:
    for settings in ({"neighbours": "mean"}, {"neighbours": "pagerank", "restart": 2.0}):
        with pytest.raises(EigenmapError, match=r"neighbours must be one of|restart must be a probability"):
            fit_graph("nowhere.npz", **settings)


def test_nodes_without_features_get_their_code_from_neighbours(model: Eigenmap) -> None:
    x = ALIKE.x.copy()
    x[:20] = 1e6  # these values must not matter
    codes = model.encode(x, edges=ALIKE.edge_index, missing=np.arange(20))
    own = model.encode(ALIKE.x).astype(np.float64)
    own[:20] = 0
    how = model.neighbours
    y = unit(propagated(how.propagation.way, how.propagation.restart, smoothing(dense(ALIKE)), own))
    assert how.alignment is not None
    np.testing.assert_allclose(codes, how.alignment.apply(unit_rms_rows(torch.from_numpy(y))).numpy(), atol=1e-5)
    plain = fit_graph((ALIKE.x, ALIKE.edge_index), 6, **{**SMALL, "steps": 4}, neighbours="none")
    own = plain.encode(ALIKE.x).astype(np.float64)
    expected = own.copy()
    own[:20] = 0
    expected[:20] = unit(smoothing(dense(ALIKE)) @ own)[:20]
    found = plain.encode(x, edges=ALIKE.edge_index, missing=np.arange(20))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_node_with_neither_features_nor_edges_is_refused(model: Eigenmap) -> None:
    with pytest.raises(EigenmapError, match=r"Node 2.*features"):
        model.encode(ALIKE.x[:3], edges=[[0], [1]], missing=[2])


def test_edges_that_do_not_belong(model: Eigenmap) -> None:
    with pytest.raises(EigenmapError, match=r"edges.*node 9"):
        model.encode(ALIKE.x[:3], edges=[[0], [9]])
    with pytest.raises(EigenmapError, match=r"missing.*edges"):
        model.encode(ALIKE.x[:3], missing=[0])


def test_the_estimator_takes_an_adjacency_matrix(tmp_path: Path) -> None:
    import scipy.sparse

    settings = {key: value for key, value in SMALL.items() if key in ("width", "blocks", "batch_size")}
    estimator = GraphEigenmap(6, steps=20, settings={**settings, "neighbours": "S"}, device="cpu")
    estimator.fit((ALIKE.x, ALIKE.edge_index))
    adjacency = scipy.sparse.csr_matrix(dense(ALIKE))
    codes = estimator.transform(ALIKE.x, adjacency=adjacency)
    np.testing.assert_array_equal(codes, estimator.model_.encode(ALIKE.x, edges=ALIKE.edge_index))
    estimator.save(tmp_path / "run")
    np.testing.assert_array_equal(GraphEigenmap.load(tmp_path / "run").transform(ALIKE.x, adjacency), codes)
    with pytest.raises(EigenmapError, match=r"3 x 3.*600 x 600"):
        estimator.transform(ALIKE.x[:3], adjacency=adjacency)


# Parts of the choice


def test_reciprocal_ranks_by_a_slow_loop() -> None:
    rng: Any = np.random.default_rng(0)
    own, y = rng.normal(size=(40, 5)).astype(np.float32), rng.normal(size=(6, 5)).astype(np.float32)
    own[7] = own[8]  # a tie
    target, others = np.array([7, 3, 9, 39, 0, 8]), np.arange(5, 40)
    found = reciprocal_ranks(y, own, target, others)
    for row in range(6):
        cosines = unit(own.astype(np.float64)) @ unit(y[row : row + 1].astype(np.float64))[0]
        rank = 1.0
        for other in others:
            if other != target[row]:
                difference = cosines[other] - cosines[target[row]]
                rank += 0.5 if abs(difference) < 1e-6 else float(difference > 0)
        assert found[row] == pytest.approx(1 / rank)


def test_the_cosine_of_codes_side_by_side_is_their_mean() -> None:
    rng: Any = np.random.default_rng(0)
    own = rng.normal(size=(30, 4)).astype(np.float32)
    parts = [rng.normal(size=(3, 4)).astype(np.float32) for _ in range(3)]
    together = reciprocal_ranks(np.concatenate(parts, 1), own, np.arange(3), np.arange(30))
    mean = sum(unit(part.astype(np.float64)) for part in parts)
    np.testing.assert_allclose(together, reciprocal_ranks(mean.astype(np.float32), own, np.arange(3), np.arange(30)))


def test_shared_is_1_for_equal_ends_and_0_for_random_ones() -> None:
    rng: Any = np.random.default_rng(0)
    own = rng.normal(size=(2000, 16)).astype(np.float32) + 1  # a common mean carries no information
    assert shared(own, np.stack([np.arange(2000)] * 2)) == pytest.approx(1, abs=1e-6)
    assert abs(shared(own, rng.integers(2000, size=(2, 5000)))) < 0.02


def test_the_best_way_is_the_one_of_the_highest_rank() -> None:
    scores: Any = [
        {"way": "none", "restart": 0.0, "rank": 0.4},
        {"way": "S", "restart": 0.0, "rank": 0.1},
        {"way": "pagerank", "restart": 0.2, "rank": 0.2},
    ]
    assert best_of(scores) == Propagation("pagerank", 0.2)
    assert best_of(scores[:1]) == Propagation() == best_of([])


@pytest.mark.parametrize(("concat", "chosen"), [(0.098, "concat"), (0.096, "S2")])
def test_the_parts_side_by_side_are_chosen_if_they_are_almost_as_good(concat: float, chosen: str) -> None:
    ranks = {"none": 0.2, "S": 0.09, "S2": 0.1, "concat": concat, "pagerank": 0.095}
    scores = [neighbours.Score(way=way, restart=0.1 * (way == "pagerank"), rank=rank) for way, rank in ranks.items()]
    assert best_of(scores).way == chosen


def pairs_of(graph: Blocks, fraction: float = 0.1) -> GraphPairs:
    from eigenmap import load_graph

    walk = load_graph((graph.x, graph.edge_index)).walk()
    return GraphPairs(walk, 2, 0, held_out=hold_out_edges(walk, fraction))


def test_ways_are_judged_without_the_held_out_edges() -> None:
    pairs = pairs_of(ALIKE)
    sample = sample_graph(pairs, 0)
    assert pairs.held_out is not None
    left = set(map(tuple, sample.walk.edges().T.tolist()))
    held = set(map(tuple, sample.ends.T.tolist()))
    assert not left & held and len(left) == pairs.walk.n_entries - 2 * len(held)
    own = np.random.default_rng(0).normal(size=(600, 4)).astype(np.float32)
    again = judge([Propagation("S")], Smoothing.of(sample.walk), own, sample.ends, 0)
    W = dense(ALIKE)
    for a, b in held:
        W[a, b] = W[b, a] = 0
    y = (smoothing(W) @ own).astype(np.float32)
    rng: Any = np.random.default_rng(0)
    ends = sample.ends[:, rng.permutation(sample.ends.shape[1])]
    query, target = np.concatenate([ends, ends[::-1]], axis=1)
    expected = reciprocal_ranks(y[query], own, target, rng.permutation(600)).mean()
    assert again[1]["rank"] == pytest.approx(float(expected), rel=1e-6)


def test_of_a_large_graph_the_surroundings_of_held_out_edges_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "TABLE_NODES", 200)
    monkeypatch.setattr(neighbours, "JUDGED_EDGES", 5)
    pairs = pairs_of(ALIKE)
    sample = sample_graph(pairs, 0)
    assert 10 < len(sample.nodes) <= 210 and bool((sample.nodes.diff() > 0).all())
    W = dense(ALIKE)
    assert pairs.held_out is not None
    for a, b in zip(pairs.held_out.rows.tolist(), pairs.held_out.columns.tolist(), strict=True):
        W[a, b] = W[b, a] = 0
    inside = W[np.ix_(sample.nodes, sample.nodes)]
    assert set(map(tuple, sample.walk.edges().T.tolist())) == set(zip(*np.nonzero(inside), strict=True))
    assert sample.ends.shape == (2, 5)
    near = surroundings(pairs.walk, torch.tensor([0, 1]), 0)
    assert {0, 1} <= set(near.tolist()) and len(near) <= 202


def test_without_held_out_edges_nothing_is_chosen() -> None:
    model = fit_graph((ALIKE.x, ALIKE.edge_index), 6, **{**SMALL, "steps": 4}, held_out=0.0)
    assert model.neighbours.propagation.way == "none" and model.training["neighbours"]["scores"] == []


@pytest.mark.parametrize("wanted", [Propagation("S"), Propagation("pagerank", 0.1)])
def test_neighbours_that_would_make_all_codes_equal_are_not_used(wanted: Propagation) -> None:
    """The codes of a model of one feature are 1 and -1, and their averages may all have the same sign."""

    def encode(x: Any) -> np.ndarray:
        codes = np.ones((len(x), 2), np.float32)
        codes[::20, 0] = -1
        codes[:, 1] = 0
        return codes

    choice = neighbours.choose(encode, torch.from_numpy(ALIKE.x), pairs_of(ALIKE), 2, 0, wanted)
    assert choice.codes.propagation == Propagation() and choice.shared is not None
