"""Perturbed matrices have the eigenfunctions of the kernel, and the eigenvalues that the formulas say."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.relations.kernel import KernelBlocks, rbf
from eigenmap.relations.perturbation import lifted, truncated


def matrix(mu: list[float]) -> tuple[Tensor, Tensor]:
    """A Gram matrix of n points with eigenvalues n mu, and its eigenvectors."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.linalg.qr(torch.randn(len(mu), len(mu), generator=generator, dtype=torch.float64)).Q
    return len(mu) * (vectors * torch.tensor(mu, dtype=torch.float64)) @ vectors.T, vectors


def assert_eigen(K: Tensor, vectors: Tensor, mu: list[float]) -> None:
    torch.testing.assert_close(K @ vectors / len(K), vectors * torch.tensor(mu, dtype=torch.float64))


def test_lifted() -> None:
    mu = [0.9, 0.3, 0.01, 0.0, -0.02]
    K, vectors = matrix(mu)
    assert_eigen(lifted(K, tau=0.05), vectors, [m / (m + 0.05) for m in mu])


def test_lifting_keeps_the_order_of_an_indefinite_spectrum_or_refuses() -> None:
    K, vectors = matrix([0.9, 0.3, -0.1, -0.2])
    raised = lifted(K, tau=0.3)
    values = ((vectors.T @ raised @ vectors) / len(K)).diagonal()
    assert bool((values[:-1] > values[1:]).all())
    with pytest.raises(EigenmapError, match=r"eigenvalue.*-tau"):
        lifted(K, tau=0.15)


def test_truncated() -> None:
    K, vectors = matrix([0.9, 0.3, 0.01, -0.5])
    assert_eigen(truncated(K, floor=0.1), vectors, [0.9, 0.3, 0.0, 0.0])


def test_both_are_symmetric_enough_to_be_given_as_kernels() -> None:
    x = torch.rand(50, 2, generator=torch.Generator().manual_seed(0))
    K = rbf(x, x)
    for perturbed in (lifted(K, 1e-3), truncated(K, 1e-3)):
        assert perturbed.dtype == torch.float64
        torch.testing.assert_close(KernelBlocks(x, perturbed).batch(0).kernel, perturbed)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_bad_strengths_are_named(value: float) -> None:
    K, _ = matrix([0.9, 0.3])
    with pytest.raises(EigenmapError, match=r"tau.*0"):
        lifted(K, value)
    with pytest.raises(EigenmapError, match=r"floor.*0"):
        truncated(K, value)


def test_nothing_left_and_not_square() -> None:
    K, _ = matrix([0.9, 0.3])
    with pytest.raises(EigenmapError, match=r"2.*largest.*0"):
        truncated(K, 2.0)
    for perturb in (lifted, truncated):
        with pytest.raises(EigenmapError, match="square"):
            perturb(torch.ones(2, 3), 0.1)
