from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from eigenmap import Eigenmap, EigenmapError, fit_graph, load_graph
from eigenmap.data.graphs.adjacency import build_adjacency
from eigenmap.embedding.append import append_nodes
from eigenmap.embedding.node_store import NodeCodes
from eigenmap.embedding.nodes import embed_nodes
from eigenmap.fitting import graph as graph_fits
from eigenmap.fitting import neighbours
from eigenmap.networks import SparseRows
from eigenmap.relations import feature_propagation
from eigenmap.relations.feature_propagation import propagated_features, without_rows
from eigenmap.relations.propagation import Smoothing
from tests.graphs import blocks
from tests.relations.dense_propagation import edge_list, random_weights, smoothing

SMALL: dict[str, Any] = {"width": 8, "blocks": 1, "batch_size": 32, "device": "cpu", "progress": False, "steps": 3}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_features_beside_their_averages(sparse: bool, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_propagation, "MEMORY", 1)  # a column at a time
    W = random_weights(20, 30, weighted=weighted)
    index, weights = edge_list(W)
    smooth = Smoothing.of(build_adjacency(torch.from_numpy(index), 20, torch.from_numpy(weights) if weighted else None))
    x = np.random.default_rng(0).normal(size=(20, 5)) * (np.random.default_rng(1).random((20, 5)) < 0.4)
    S = smoothing(W)
    expected = np.concatenate([x, S @ x, S @ S @ x], axis=1)
    given: Any = SparseRows.of(scipy.sparse.csr_matrix(x)) if sparse else torch.from_numpy(x)
    found = propagated_features(given, smooth, 2)
    assert isinstance(found, SparseRows) == sparse
    dense = found.dense() if isinstance(found, SparseRows) else found
    np.testing.assert_allclose(dense.numpy(), expected, atol=1e-6)
    assert propagated_features(given, smooth, 0) is given


def test_unknown_rows_are_zero() -> None:
    x = np.arange(12.0).reshape(4, 3)
    unknown = np.array([False, True, False, True])
    expected = np.where(unknown[:, None], 0, x)
    np.testing.assert_array_equal(without_rows(torch.from_numpy(x), unknown).numpy(), expected)  # type: ignore[union-attr]
    rows = without_rows(SparseRows.of(scipy.sparse.csr_matrix(x)), unknown)
    assert isinstance(rows, SparseRows)
    np.testing.assert_array_equal(rows.dense().numpy(), expected)


def test_a_model_that_learned_with_neighbours_needs_their_edges(tmp_path: Path) -> None:
    graph = blocks(90, degree=6)
    edges = graph.edge_index
    model = fit_graph((graph.x, edges), 5, **SMALL, feature_hops=2, neighbours="S")
    model.save(tmp_path / "run")
    loaded = Eigenmap.load(tmp_path / "run")
    codes = loaded.encode(graph.x, edges=edges)
    np.testing.assert_array_equal(codes, model.encode(graph.x, edges=edges))
    W = np.zeros((90, 90))
    W[edges[0], edges[1]] = W[edges[1], edges[0]] = 1
    np.fill_diagonal(W, 0)
    S = smoothing(W)
    wide = np.concatenate([graph.x, S @ graph.x, S @ S @ graph.x], axis=1)
    own = loaded.codes_of(torch.from_numpy(wide.astype(np.float32)))
    plain = loaded.neighbours.of_graph(own, edges, None, cut=_full(5))
    np.testing.assert_allclose(codes, plain, atol=1e-5)
    with pytest.raises(EigenmapError, match="give the edges of the nodes"):
        loaded.encode(graph.x)
    walk = load_graph((graph.x, edges)).walk()
    folder = embed_nodes(loaded, graph.x, walk, tmp_path / "codes", missing=[4])
    stored = NodeCodes.open(folder)
    expected = loaded.encode(graph.x, edges=edges, missing=[4])
    np.testing.assert_allclose(stored.codes, expected, atol=1e-5)
    with pytest.raises(EigenmapError, match="not stored"):
        loaded.encode(graph.x[:1], edges=[[90], [0]], stored=stored)
    with pytest.raises(EigenmapError, match="not stored"):
        append_nodes(loaded, folder, graph.x[:1], [[90], [0]])


def _full(dim: int) -> Any:
    from eigenmap.relations.neighbour_codes import Cut

    return Cut(dim)


def test_settings_that_do_not_fit() -> None:
    with pytest.raises(EigenmapError, match="feature_hops must be a whole number from 0 to 10"):
        fit_graph("nowhere.npz", feature_hops=-1)
    with pytest.raises(EigenmapError, match="feature_hops averages over undirected edges"):
        fit_graph("nowhere.npz", feature_hops=1, directed="bipartite")


def test_longer_walks_leave_the_choice_to_the_edges_of_the_graph() -> None:
    graph = blocks(120)
    model = fit_graph((graph.x, graph.edge_index), 5, **SMALL, go_on=0.5, neighbours="S", feature_hops=1)
    assert model.neighbours.propagation.way == "S"
    assert model.encode(graph.x, edges=graph.edge_index).shape == (120, 5)


def test_edges_that_judge_the_use_of_neighbours_are_not_averaged_over(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, judging, averaged = blocks(120), list[Any](), list[Smoothing]()

    def choose(encode: Any, x: Any, pairs: Any, *rest: Any) -> Any:
        judging.append(pairs)
        return neighbours.choose(encode, x, pairs, *rest)

    def averages(x: Any, smooth: Smoothing, hops: int) -> Any:
        averaged.append(smooth)
        return propagated_features(x, smooth, hops)

    monkeypatch.setattr(graph_fits, "choose", choose)
    monkeypatch.setattr(graph_fits, "propagated_features", averages)
    fit_graph((graph.x, graph.edge_index), 5, **SMALL, go_on=0.5, feature_hops=1)
    known = averaged[-1].matrix().toarray() != 0
    keys = judging[-1].held_out.keys.numpy()
    assert len(keys) > 0 and known.sum() > 120 and not known[keys // 120, keys % 120].any()
