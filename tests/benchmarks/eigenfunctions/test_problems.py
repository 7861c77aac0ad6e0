"""The known eigenfunctions are eigenfunctions: closed forms against quadrature, quadrature against quadrature."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from benchmarks.eigenfunctions.problems import (
    PROBLEMS,
    SHARES,
    BlockModel,
    Truth,
    block_probabilities,
    blocks,
    hermite_nodes,
    hermite_pairs,
    hermite_truth,
    legendre,
    quadrature_truth,
)
from eigenmap.relations.kernel import rbf

SMALL = [name for name in PROBLEMS if name != "rbf-4d"]


def orthonormality(truth: Truth) -> Tensor:
    return truth.phi.T @ (truth.weights[:, None] * truth.phi)


@pytest.mark.parametrize("name", PROBLEMS)
def test_functions_are_orthonormal_and_ordered_and_the_weights_a_measure(name: str) -> None:
    problem = PROBLEMS[name]
    truth, k = problem.truth, problem.n_components
    assert float(truth.weights.sum()) == pytest.approx(1.0)
    torch.testing.assert_close(orthonormality(truth)[:k, :k], torch.eye(k).double(), rtol=0, atol=1e-4)
    assert bool((truth.mu[:-1] >= truth.mu[1:] - 1e-12).all())
    assert sorted(j for group in truth.groups(k) for j in group)[:k] == list(range(k))


@pytest.mark.parametrize("name", SMALL)
def test_the_kernel_maps_each_function_to_its_multiple(name: str) -> None:
    problem = PROBLEMS[name]
    truth, k = problem.truth, problem.n_components
    applied = problem.kappa(truth.nodes, truth.nodes) @ (truth.weights[:, None] * truth.phi[:, :k])
    difference = (truth.weights @ (applied - truth.mu[:k] * truth.phi[:, :k]).square()).sqrt()
    assert float((difference / truth.mu[:k]).max()) < 1e-5


@pytest.mark.parametrize(("sigma", "length_scale"), [(1.3, 1.0), (0.3, 1.0), (1.0, 0.5)])
def test_hermite_closed_form_is_the_quadrature_solution(sigma: float, length_scale: float) -> None:
    nodes, weights = hermite_nodes(sigma, 80)
    mu, phi = hermite_pairs(sigma, length_scale, 8)
    solved = quadrature_truth(lambda x, y: rbf(x, y, length_scale), nodes[:, None], weights.clamp_min(1e-290), 8)
    torch.testing.assert_close(mu, solved.mu, rtol=1e-6, atol=1e-14)
    overlaps = (phi(nodes).T @ (weights[:, None] * solved.phi)).abs()
    torch.testing.assert_close(overlaps, torch.eye(8).double(), rtol=0, atol=1e-5)


def test_products_over_coordinates_are_complete() -> None:
    """Nothing among the leading products is left out: against all products of degree below 12."""
    truth = hermite_truth((1.3, 0.7), 1.0, (30, 30), 25)
    first, second = (hermite_pairs(sigma, 1.0, 12)[0] for sigma in (1.3, 0.7))
    everything = torch.outer(first, second).flatten().sort(descending=True).values[:25]
    torch.testing.assert_close(truth.mu, everything)


@pytest.mark.parametrize(("length_scale", "k"), [(1.0, 10), (0.3, 16)])
def test_the_interval_by_another_rule(length_scale: float, k: int) -> None:
    """Gauss-Legendre against the midpoint rule, which knows the large eigenvalues to its own accuracy."""
    n = 1000
    nodes = 4 * (torch.arange(n).double()[:, None] + 0.5) / n - 2
    other = quadrature_truth(lambda x, y: rbf(x, y, length_scale), nodes, torch.full((n,), 1 / n).double(), k)
    exact = quadrature_truth(lambda x, y: rbf(x, y, length_scale), *legendre(200), k)
    torch.testing.assert_close(other.mu, exact.mu, rtol=1e-3, atol=0)
    torch.testing.assert_close(PROBLEMS[f"rbf-1d-{length_scale:g}"].truth.mu[:k], exact.mu, rtol=1e-7, atol=0)


def test_the_sphere_has_the_multiplicities_of_spherical_harmonics() -> None:
    truth = PROBLEMS["polynomial-sphere"].truth
    assert [len(group) for group in truth.groups(16)] == [1, 3, 5, 7]
    assert float(truth.mu.sum()) == pytest.approx(1.0)  # the trace: kappa(x, x) = 1
    torch.testing.assert_close(truth.mu.unique(), torch.tensor([1 / 140, 0.05, 0.15, 0.25]).double())


def test_the_block_model_is_indefinite_and_its_graph_has_the_right_density() -> None:
    problem = PROBLEMS["sbm"]
    assert isinstance(problem, BlockModel)
    assert int((problem.truth.mu > 0).sum()) == problem.n_components == 4
    assert int((problem.truth.mu < 0).sum()) == 4
    P = block_probabilities()
    assert float(P.min()) > 0 and float(P.max()) <= 1
    sample = problem.sample(1500, seed=0)
    adjacency = sample.gram
    assert torch.equal(adjacency, adjacency.T) and set(adjacency.unique().tolist()) == {0.0, 1.0}
    assert float(adjacency.diagonal().sum()) == 0
    assert float(adjacency.mean()) == pytest.approx(float(SHARES @ P @ SHARES), abs=0.01)
    number = blocks(sample.x)
    pairs = adjacency[number == 0][:, number == 1]
    assert float(pairs.mean()) == pytest.approx(float(P[0, 1]), abs=0.02)
    assert sample.cross(problem.truth.nodes).shape == (len(problem.truth.nodes), 1500)


@pytest.mark.parametrize("name", SMALL)
def test_the_centred_kernel(name: str) -> None:
    """Against the double centring of the kernel's matrix at the nodes."""
    problem = PROBLEMS[name]
    truth = problem.truth
    centred = truth.centred()
    k = min(6, int((centred.mu > 1e-9).sum()))
    K, w = problem.kappa(truth.nodes, truth.nodes), truth.weights
    K = K - (w @ K) - (K @ w)[:, None] + w @ K @ w
    root = w.clamp_min(1e-290).sqrt()
    torch.testing.assert_close(
        torch.linalg.eigvalsh(root[:, None] * K * root).flip(0)[:k], centred.mu[:k], rtol=1e-3, atol=1e-9
    )
    assert float((w @ centred.phi[:, :k]).abs().max()) < 1e-6


def test_samples_depend_on_the_seed_alone() -> None:
    for problem in PROBLEMS.values():
        first, again, other = (problem.sample(20, seed) for seed in (0, 0, 1))
        assert torch.equal(first.x, again.x) and torch.equal(first.gram, again.gram)
        assert not torch.equal(first.x, other.x)
