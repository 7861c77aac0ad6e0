"""Graphs of our own making: the same on every machine, with the structure that their names say."""

from __future__ import annotations

import pytest
import torch

from benchmarks.graphs import made
from eigenmap.networks import SparseRows


def agreement(name: str) -> float:
    """Share of the edges within a class."""
    graph = made.graph(name)
    assert graph.y is not None and graph.edge_index is not None
    first, second = graph.y[graph.edge_index]
    return float((first == second).double().mean())


def test_edges_are_undirected_without_loops_and_repetitions() -> None:
    graph = made.graph("made-blocks")
    assert graph.edge_index is not None
    walk = graph.walk()
    assert walk.merged == 0 and walk.loops == 0 and walk.n_entries == graph.edge_index.shape[1]
    assert torch.equal(made.graph("made-blocks").edge_index, graph.edge_index)


@pytest.mark.parametrize(("name", "low", "high"), [
    ("made-blocks", 0.75, 0.9),
    ("made-cycle", 0.0, 0.1),
    ("made-bipartite", 0.0, 0.1),
    ("made-random", 0.1, 0.25),
    ("made-mixed", 0.4, 0.6),
])  # fmt: skip
def test_edges_join_what_they_should(name: str, low: float, high: float) -> None:
    assert low < agreement(name) < high


def test_words_are_words_and_belong_to_classes() -> None:
    graph = made.graph("made-words")
    assert (isinstance(graph.x, SparseRows) and graph.x.values is None) or bool((graph.x.values == 1).all())
    assert graph.x.offsets.diff().float().mean() < 0.1 * made.WORDS
