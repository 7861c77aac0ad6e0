"""Rivals are what their papers say: gradients against slow references, exact methods against each other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from benchmarks.eigenfunctions.problems import PROBLEMS
from benchmarks.eigenfunctions.rivals.eigengame import MuEigenGame
from benchmarks.eigenfunctions.rivals.exact import kernel_pca, nystroem
from benchmarks.eigenfunctions.rivals.grease import grease
from benchmarks.eigenfunctions.rivals.spin import SpIN
from eigenmap.relations.kernel import rbf

GENERATOR = torch.Generator().manual_seed(0)
PSI = torch.randn(30, 4, generator=GENERATOR, dtype=torch.float64)
X = torch.randn(30, 2, generator=GENERATOR, dtype=torch.float64)
GRAM = rbf(X, X)


def gradient(objective: nn.Module) -> Tensor:
    psi = PSI.clone().requires_grad_()
    objective(psi, psi, GRAM).backward()
    assert psi.grad is not None
    return psi.grad


def test_spin_follows_the_eigenvalue_of_each_feature_with_those_before_it_held() -> None:
    expected = torch.zeros_like(PSI)
    for j in range(4):
        psi = PSI.clone().requires_grad_()
        table = torch.cat([psi[:, :j].detach(), psi[:, j : j + 1]], 1)
        L = torch.linalg.cholesky(table.T @ table / 30)
        Lambda = torch.linalg.solve(L, torch.linalg.solve(L, table.T @ GRAM @ table / 900).T)
        (Lambda[j, j]).backward()
        assert psi.grad is not None
        expected -= psi.grad
    torch.testing.assert_close(gradient(SpIN(ridge=0.0)), expected, rtol=1e-8, atol=1e-12)


def test_mu_eigengame_is_its_update_on_the_sphere() -> None:
    norms = PSI.square().mean(0).sqrt()
    f = PSI / norms
    Tf = GRAM @ f / 30
    expected = torch.zeros_like(PSI)
    for j in range(4):
        g = Tf[:, j].clone()
        for i in range(j):
            g -= (f[:, j] @ Tf[:, i] / 30) * f[:, i]
        tangent = g - (g @ f[:, j] / 30) * f[:, j]
        expected[:, j] = -2 * tangent / 30 / norms[j]
    torch.testing.assert_close(gradient(MuEigenGame()), expected)


@pytest.mark.parametrize("objective", [SpIN(), MuEigenGame()])
def test_free_functions_find_the_leading_eigenvectors_in_order(objective: nn.Module) -> None:
    table = nn.Parameter(PSI[:, :3].clone())
    optimizer = torch.optim.Adam([table], lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 800)
    for _ in range(800):
        optimizer.zero_grad()
        objective(table, table, GRAM).backward()
        optimizer.step()
        schedule.step()
    vectors = torch.linalg.eigh(GRAM).eigenvectors.flip(1)[:, :3]
    psi = table.detach()
    if isinstance(objective, SpIN):  # its features are those orthogonalised in order
        psi = torch.linalg.qr(psi).Q
    overlaps = ((psi / psi.norm(dim=0)).T @ vectors).abs()
    torch.testing.assert_close(overlaps, torch.eye(3).double(), rtol=0, atol=0.02)


def test_nystroem_is_exact_on_the_points_and_extends_by_the_eigenequation() -> None:
    mu, extend = nystroem(GRAM, 5)
    phi = extend(GRAM)
    torch.testing.assert_close(GRAM @ phi / 30, phi * mu)
    torch.testing.assert_close(phi.T @ phi / 30, torch.eye(5).double(), rtol=0, atol=1e-8)
    new = torch.zeros(3, 2, dtype=torch.float64)
    torch.testing.assert_close(extend(rbf(new, X)), rbf(new, X) @ phi / (30 * mu))


def test_kernel_pca_is_nystroem_of_the_centred_kernel() -> None:
    H = torch.eye(30).double() - 1 / 30
    mu, extend = kernel_pca(GRAM, 5)
    expected_mu, expected = nystroem(H @ GRAM @ H, 5)
    torch.testing.assert_close(mu, expected_mu, rtol=1e-8, atol=0)
    found, phi = extend(GRAM), expected(H @ GRAM @ H)
    cosines = (found * phi).sum(0).abs() / found.norm(dim=0) / phi.norm(dim=0)
    torch.testing.assert_close(cosines, torch.ones(5).double())


def test_kernel_pca_takes_the_largest_eigenvalues_of_indefinite_matrices() -> None:
    gram = PROBLEMS["sbm"].sample(100, seed=0).gram
    H = torch.eye(100).double() - 1 / 100
    torch.testing.assert_close(kernel_pca(gram, 3)[0], nystroem(H @ gram @ H, 3)[0])


def test_grease_gives_functions_of_new_points_the_trivial_one_first(capsys: pytest.CaptureFixture[str]) -> None:
    points = X.repeat(4, 1) + 0.01 * torch.randn(120, 2, generator=GENERATOR, dtype=torch.float64)
    before = points.clone()
    mu, functions = grease(points, 3, width=16, epochs=5, rate=0.01, seed=0)
    assert torch.equal(points, before)
    assert mu.shape == (3,) and float(mu[0]) == pytest.approx(float(mu.max()))
    values = functions(X)
    assert values.shape == (30, 3) and bool(values.isfinite().all())
    # A value depends on its point alone, not on the company it comes in.
    torch.testing.assert_close(functions(X[:2]), values[:2], rtol=1e-4, atol=1e-4)
    assert capsys.readouterr().out == ""
