from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.data.graphs.graph import Graph
from eigenmap.relations import diffusion
from eigenmap.relations.diffusion import diffuse


def random_graph(weighted: bool) -> tuple[Graph, np.ndarray]:
    """A connected graph of 12 nodes and its dense matrix."""
    random = np.random.default_rng(0)
    dense = np.triu(random.random((12, 12)) < 0.25, 1).astype(float)
    dense[np.arange(11), np.arange(1, 12)] = 1
    if weighted:
        dense *= random.uniform(0.5, 4, dense.shape)
    first, second = np.nonzero(dense)
    edges = torch.from_numpy(np.stack([first, second]))
    weights = torch.from_numpy(dense[first, second]) if weighted else None
    return Graph(torch.eye(12), edges, weights, y=torch.arange(12)), dense + dense.T


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("go_on", [0.0, 0.7])
def test_walks_have_the_exact_joint_probabilities(weighted: bool, go_on: float) -> None:
    graph, dense = random_graph(weighted)
    degree = dense.sum(1)
    P, power, mixed = dense / degree[:, None], np.eye(12), np.zeros((12, 12))
    for hop in range(200):
        power = power @ P
        mixed += (1 - go_on) * go_on**hop * power
    expected = degree[:, None] * mixed
    np.fill_diagonal(expected, 0)
    expected /= expected.sum()
    np.testing.assert_allclose(expected, expected.T, atol=1e-12)  # reversible, as the walk itself is

    draws = 4000
    walk = diffuse(graph, go_on, walks=draws).walk()
    found = np.zeros((12, 12))
    rows, columns = walk.edges().numpy()
    found[rows, columns] = walk.weights(torch.arange(walk.n_entries)).numpy()
    total = draws * len(np.nonzero(dense)[0])
    np.testing.assert_allclose(found / found.sum(), expected, atol=5 * (expected.max() / total) ** 0.5)


def test_the_rest_of_the_graph_stays_and_seeds_count() -> None:
    graph, _ = random_graph(False)
    first, again, other = (diffuse(graph, seed=seed) for seed in (3, 3, 4))
    assert first.x is graph.x and first.y is graph.y
    assert first.edge_index is not None and torch.equal(first.edge_index, again.edge_index)
    assert not torch.equal(first.edge_index[:, :50], other.edge_index[:, :50])
    assert bool((first.edge_index[0] != first.edge_index[1]).all())


def test_isolated_nodes_stay_isolated() -> None:
    graph = Graph(torch.eye(4), torch.tensor([[0, 1], [1, 2]]))
    assert 3 not in diffuse(graph, 0.5, 20).edge_index.unique()


@pytest.mark.parametrize(
    ("given", "message"),
    [({"go_on": 1.0}, "from 0 to 0.9"), ({"go_on": "x"}, "from 0 to 0.9"), ({"walks": 0}, "at least 1")],
)
def test_bad_input_says_what_is_allowed(given: dict[str, object], message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        diffuse(random_graph(False)[0], **given)


def test_more_walks_than_fit_into_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = random_graph(False)
    entries = graph.walk().n_entries
    monkeypatch.setattr(diffusion, "MOST", 3 * entries)
    diffuse(graph, walks=3)
    with pytest.raises(EigenmapError, match=r"4 walks.*3"):
        diffuse(graph, walks=4)


def test_walks_that_return_are_missing_from_the_eigenvalues() -> None:
    """The figures in the module's docstring: the seventh eigenvalue below the constant's, of a ring of 40 nodes."""
    n, a = 40, 0.7
    P = (np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)) / 2
    mixed = (1 - a) * P @ np.linalg.inv(np.eye(n) - a * P)
    assert np.linalg.eigvalsh(mixed)[-8] == pytest.approx(0.56, abs=0.005)
    np.fill_diagonal(mixed, 0)
    assert np.linalg.eigvalsh(mixed / mixed.sum(1, keepdims=True))[-8] == pytest.approx(0.47, abs=0.005)
