from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.manifold import spectral_embedding
from sklearn.neighbors import kneighbors_graph
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.relations import neighbours as module
from eigenmap.relations.neighbours import NeighbourGraph


def random(n: int, d: int = 2, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def dense(graph: NeighbourGraph) -> Tensor:
    """W, written out."""
    return torch.sparse_coo_tensor(
        graph.edges, graph.weights, (len(graph), len(graph)), check_invariants=True
    ).to_dense()


def test_is_scikit_learns_graph() -> None:
    x = random(60)
    N = kneighbors_graph(x.numpy(), 5, include_self=False).toarray()
    torch.testing.assert_close(dense(NeighbourGraph(x, np.int64(5))), torch.from_numpy((N + N.T) / 2))  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", [2.0**-400, 1e-25, 1e25, 2.0**400])
def test_neighbours_do_not_depend_on_the_unit_of_length(unit: float) -> None:
    """Kilograms of atoms, metres of galaxies: their squares do not fit float32."""
    x = random(60)
    graph, scaled = NeighbourGraph(x, 5), NeighbourGraph(x * unit, 5)
    torch.testing.assert_close(scaled.edges, graph.edges)
    assert scaled.spacing / unit == pytest.approx(graph.spacing)
    f, z = random(60, 1, seed=1), random(20, seed=2)
    torch.testing.assert_close(scaled.extend(z * unit, f), graph.extend(z, f))
    assert NeighbourGraph(torch.full((8, 2), unit, dtype=torch.float64), 2).spacing == 0


def test_the_operator_has_the_spectrum_of_the_normalised_adjacency() -> None:
    graph = NeighbourGraph(random(60), 5)
    W, T = dense(graph), graph.operator()
    A = W / (graph.degree[:, None] * graph.degree).sqrt()
    mu, vectors = torch.linalg.eigh(A)
    functions = vectors / graph.degree.sqrt()[:, None]
    torch.testing.assert_close(T.apply(functions), functions * mu, rtol=0, atol=1e-12)
    assert float(mu[-1]) == pytest.approx(1.0)
    assert float(T.p.sum()) == pytest.approx(1.0)


def test_its_functions_are_those_of_spectral_embedding() -> None:
    graph = NeighbourGraph(random(80), 8)
    theirs = torch.from_numpy(spectral_embedding(dense(graph).numpy(), n_components=3, drop_first=False)).double()
    image = graph.operator().apply(theirs)
    mu = (theirs * image).sum(0) / theirs.square().sum(0)
    torch.testing.assert_close(image, theirs * mu, rtol=0, atol=1e-4 * float(theirs.abs().max()))


def test_elsewhere_it_is_the_mean_over_the_nearest_points() -> None:
    x, z, f = random(50), random(4, seed=1), random(50, 3, seed=2)
    nearest = torch.cdist(z, x).topk(5, largest=False).indices
    torch.testing.assert_close(NeighbourGraph(x, 5).operator().at(z, f), f[nearest].mean(1))


def test_edges_are_drawn_by_their_weight_as_functions_of_seed_and_step() -> None:
    graph = NeighbourGraph(random(12), 2, batch_size=4000, seed=3)
    x, x_plus, kernel = graph.batch(5)
    assert kernel is None
    again = NeighbourGraph(random(12), 2, batch_size=4000, seed=3).batch(5)
    assert torch.equal(again.x, x) and not torch.equal(graph.batch(6).x, x)
    counts = torch.zeros(12, 12, dtype=torch.float64)
    number = {tuple(row): i for i, row in enumerate(random(12).tolist())}
    for a, b in zip(x.tolist(), x_plus.tolist(), strict=True):
        counts[number[tuple(a)], number[tuple(b)]] += 1
    W = dense(graph)
    assert not bool(counts[W == 0].any())
    torch.testing.assert_close(counts / 4000, W / W.sum(), rtol=0, atol=0.012)


def test_many_points_are_searched_approximately(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = dense(NeighbourGraph(random(400), 6))
    monkeypatch.setattr(module, "EXACT", 100)
    found = dense(NeighbourGraph(random(400), 6))
    assert float(((exact > 0) & (found > 0)).sum() / (exact > 0).sum()) > 0.95


def test_copies_of_a_point_are_neighbours_of_each_other_and_not_of_themselves() -> None:
    x = torch.cat([torch.zeros(5, 2), torch.ones(5, 2)]).double()
    W = dense(NeighbourGraph(x, 3))
    assert not bool(W.diagonal().any())
    assert not bool(W[:5, 5:].any())
    assert float(W.sum()) == 30.0


def test_some_of_the_points_have_a_graph_of_their_own() -> None:
    x = random(60)
    part = NeighbourGraph(x, 6).operator().restrict(torch.arange(0, 60, 2))
    own = NeighbourGraph(x[::2], 3).operator()
    f = random(30, 2, seed=1)
    torch.testing.assert_close(part.apply(f), own.apply(f))
    torch.testing.assert_close(part.at(x, f), own.at(x, f))
    assert float(part.p.sum()) == pytest.approx(1.0)


def test_one_is_an_eigenvalue_once_for_every_component() -> None:
    apart = torch.cat([random(20), random(20) + 100, random(20) - 100])
    operator = NeighbourGraph(apart, 8).operator()
    assert operator.components == 3
    root = operator.p.sqrt()
    mu = torch.linalg.eigvalsh(root[:, None] * operator.gram.to_dense() * root)
    assert int((mu > 1 - 1e-9).sum()) == 3


def test_far_from_the_origin_neighbours_are_the_same() -> None:
    x = (random(60) * 2**10).round() / 2**10  # so that nothing is rounded by moving them
    torch.testing.assert_close(dense(NeighbourGraph(x + 2.0**26, 5)), dense(NeighbourGraph(x, 5)))


@pytest.mark.parametrize("count", [0, 10, 2.5, True, "five"])
def test_a_bad_number_is_named(count: object) -> None:
    with pytest.raises(EigenmapError, match=r"n_neighbors.*1.*9"):
        NeighbourGraph(random(10), count)  # type: ignore[arg-type]


def test_missed_neighbours_are_left_out() -> None:
    found = np.array([[0, 1, -1], [1, 0, 2], [2, 1, 0]])
    rows, columns, _ = module._without_self(found, 1)
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == [(0, 1), (1, 0), (2, 1)]
