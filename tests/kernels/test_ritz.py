from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.kernels.ritz import NEAR, least_squares, probes, rayleigh_ritz, solve, spacing
from eigenmap.relations.kernel import rbf
from eigenmap.relations.operator import KernelOperator, MatrixOperator


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


P = torch.rand(40, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
P = P / P.sum()
X = random(40, 1)
T = KernelOperator(X, rbf, P)


def exact(k: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues of T, and its eigenfunctions at the points, orthonormal in L2(p)."""
    root = P.sqrt()
    mu, vectors = torch.linalg.eigh(root[:, None] * rbf(X, X) * root)
    return mu.flip(0)[:k], (vectors / root[:, None]).flip(1)[:, :k]


def monomials(x: Tensor) -> Tensor:
    return torch.cat([(x / 2) ** j for j in range(16)], 1)


def test_a_span_of_everything_gives_the_exact_spectrum() -> None:
    mu, coefficients, _ = rayleigh_ritz(torch.eye(40).double(), T)
    expected, vectors = exact(6)
    torch.testing.assert_close(mu[:6], expected)
    inner = (coefficients[:, :6].T @ (P[:, None] * vectors)).abs()
    torch.testing.assert_close(inner, torch.eye(6).double(), rtol=0, atol=1e-7)


def test_functions_are_orthonormal_and_repeated_columns_do_not_matter() -> None:
    H = random(40, 5, seed=1)
    mu, coefficients, spanned = rayleigh_ritz(torch.cat([H, H @ random(5, 3, seed=2), 0 * H[:, :1]], 1), T)
    assert spanned == len(mu) == 5
    values = torch.cat([H, H @ random(5, 3, seed=2), 0 * H[:, :1]], 1) @ coefficients
    torch.testing.assert_close((P[:, None] * values).T @ values, torch.eye(5).double(), rtol=0, atol=1e-10)
    torch.testing.assert_close(mu, rayleigh_ritz(H, T)[0])


def test_negative_eigenvalues_keep_their_sign_and_zeros_are_left_out() -> None:
    Q = torch.linalg.qr(random(8, 8)).Q * 8**0.5
    gram = (Q * torch.tensor([3.0, 1.0, 0, 0, 0, 0, -1.0, -2.0]).double()) @ Q.T
    operator = MatrixOperator(random(8, 1), (gram + gram.T) / 2)
    mu, _, spanned = rayleigh_ritz(torch.eye(8).double(), operator)
    assert spanned == 8
    torch.testing.assert_close(mu, torch.tensor([3.0, 1.0, -1.0, -2.0]).double())


def test_solve_finds_nystroems_functions_between_the_points_too() -> None:
    solution = solve(monomials, T, 6, torch.ones(1).double(), seed=0)
    mu, vectors = exact(6)
    torch.testing.assert_close(solution.eigenvalues, mu, rtol=1e-3, atol=0)
    z = torch.linspace(float(X.min()), float(X.max()), 101).double()[:, None]
    nystroem = rbf(z, X) @ (P[:, None] * vectors) / mu
    found = monomials(z) @ solution.head
    cosines = (found * nystroem).sum(0).abs() / (found.norm(dim=0) * nystroem.norm(dim=0))
    assert float(cosines.min()) > 0.999
    assert float(solution.residual.max()) < 0.05


def test_each_function_is_positive_where_it_is_largest() -> None:
    values = monomials(X) @ solve(monomials, T, 4, torch.ones(1).double(), seed=0).head
    assert bool((values.gather(0, values.abs().argmax(0, keepdim=True)) > 0).all())


def test_probes_where_the_kernel_is_not_defined_do_not_count() -> None:
    def positive_only(x: Tensor, y: Tensor) -> Tensor:
        return (x.log() @ y.log().T).cosh()  # NaN left of zero

    operator = KernelOperator(X.abs() + 0.1, positive_only)
    solution = solve(monomials, operator, 2, torch.ones(1).double(), seed=0)
    assert bool(solution.head.isfinite().all())


def test_a_network_that_diverged_is_named() -> None:
    with pytest.raises(EigenmapError, match="diverged"):
        solve(lambda x: x / 0, T, 1, torch.ones(1).double(), seed=0)


def test_probes_follow_the_measure() -> None:
    p = torch.tensor([0.0, 0.25, 0.75]).double()
    operator = KernelOperator(torch.tensor([[-100.0], [0.0], [100.0]]).double(), rbf, p)
    z = probes(operator, 4000, torch.ones(1).double(), seed=1)
    assert float((z < -50).double().mean()) == 0
    assert float((z > 50).double().mean()) == pytest.approx(0.75, abs=0.03)
    assert float(z[z < 50].std()) == pytest.approx(1.0, abs=0.1)


def test_least_squares_is_the_smallest_solution() -> None:
    rows = random(30, 4)
    rows = torch.cat([rows, rows[:, :1]], 1)
    targets = random(30, 2, seed=1)
    torch.testing.assert_close(least_squares(rows, targets), torch.linalg.pinv(rows, rtol=1e-8) @ targets)


def test_functions_that_only_fit_the_points_are_kept_where_the_probes_are_out_of_reach() -> None:
    """Span that is exact near the points and wrong far away: fitting the probes would make it worse."""
    _, vectors = exact(4)
    mu = exact(4)[0]

    def near_only(z: Tensor) -> Tensor:
        functions = rbf(z, X) @ (P[:, None] * vectors) / mu
        return torch.where(z.abs() > float(X.abs().max()) + 0.3, 50.0, functions)

    solution = solve(near_only, T, 4, torch.ones(1).double(), seed=0)
    torch.testing.assert_close(solution.eigenvalues, mu, rtol=1e-6, atol=0)


def test_spacing_is_the_distance_to_the_nearest_other_point_in_units_of_the_scale() -> None:
    x = torch.tensor([[0.0, 0.0], [3.0, 0.0], [3.0, 8.0]]).double()
    scale = torch.tensor([1.0, 2.0]).double()
    assert spacing(KernelOperator(x, rbf), scale) == pytest.approx((3 + 3 + 4) / 3)


def test_where_points_are_dense_the_two_residuals_are_one() -> None:
    dense = solve(monomials, T, 3, torch.ones(1).double(), seed=0)
    assert spacing(T, torch.ones(1).double()) < NEAR
    assert torch.equal(dense.residual, dense.outside)


def test_where_points_are_sparse_the_residual_is_larger_outside() -> None:
    x = random(60, 4)
    operator = KernelOperator(x, rbf)
    directions = random(4, 40, seed=5)
    found = solve(lambda z: torch.cos(z @ directions), operator, 3, torch.ones(4).double(), seed=0)
    assert spacing(operator, torch.ones(4).double()) > NEAR
    assert float(found.outside.mean()) > float(found.residual.mean())
