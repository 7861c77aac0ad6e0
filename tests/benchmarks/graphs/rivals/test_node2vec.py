from __future__ import annotations

import numpy as np
import torch

from benchmarks.graphs.rivals.node2vec import Settings, Walker, embed, windows
from tests.benchmarks.graphs.rivals.graphs import random_graph, two_blocks


def exact(dense: np.ndarray, previous: int, current: int, p: float, q: float) -> np.ndarray:
    """The transition probabilities of the paper, node by node."""
    weight = np.zeros(len(dense))
    for x in np.flatnonzero(dense[current]):
        weight[x] = 1 / p if x == previous else 1.0 if dense[previous, x] else 1 / q
    return weight / weight.sum()


def test_steps_have_the_exact_probabilities():
    matrix, draws = random_graph(12, 0.3), 40_000
    dense, p, q = matrix.toarray(), 0.25, 4.0
    torch.manual_seed(0)
    walker = Walker(matrix, p, q)
    for previous, current in [(0, 1), (5, 4), (11, 0)]:
        assert dense[previous, current]
        step = walker.step(torch.full((draws,), previous), torch.full((draws,), current))
        found = np.bincount(step.numpy(), minlength=12) / draws
        np.testing.assert_allclose(found, exact(dense, previous, current, p, q), atol=4 * 0.5 / draws**0.5)


def test_walks_follow_edges_and_isolated_nodes_stay():
    matrix = random_graph(30)
    matrix.resize(31, 31)
    for p, q in [(1.0, 1.0), (0.5, 2.0)]:
        walks = Walker(matrix, p, q).walks(torch.arange(31), 8)
        assert walks.shape == (31, 8) and walks[30].tolist() == [30] * 8
        steps = np.stack([walks[:30, :-1].reshape(-1), walks[:30, 1:].reshape(-1)])
        assert (matrix.toarray()[steps[0], steps[1]] == 1).all()


def test_windows_are_all_pairs_within_reach():
    first, second = windows(torch.tensor([[1, 2, 3, 4]]), 2)
    pairs = sorted(zip(first.tolist(), second.tolist(), strict=True))
    near = [(a, b) for a in range(1, 5) for b in range(1, 5) if 0 < abs(a - b) <= 2]
    assert pairs == sorted(near)


def test_neighbours_in_the_graph_become_neighbours_in_space():
    matrix, y = two_blocks()
    codes = torch.nn.functional.normalize(embed(matrix, Settings(dim=16, walks_per_node=30, batch_walks=50)), dim=1)
    cosine = codes @ codes.T
    same = y[:, None] == y[None, :]
    off = ~torch.eye(200, dtype=torch.bool)
    assert cosine[same & off].mean() > cosine[~same].mean() + 0.2
