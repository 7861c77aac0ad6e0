from __future__ import annotations

import functools
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import RitzLogDet, RitzTrace

from .reference import KERNELS, assert_matches, example, expectation, normalised, pooled_rows
from .test_recovery import relation, train

FORMS = (RitzTrace(), RitzLogDet(), RitzTrace(ridge=1e-6, centre=False), RitzLogDet(0.5, 1e-6, centre=False))
every_form = pytest.mark.parametrize("objective", FORMS, ids=["trace", "logdet", "trace uncentred", "logdet uncentred"])


def matrices(psi: Tensor, psi_plus: Tensor, kernel: Tensor | None, ridge: float, centre: bool) -> tuple[Tensor, Tensor]:
    """C + ridge I and A, entry by entry."""
    psi, psi_plus = normalised(psi, psi_plus, kernel, centre=centre)
    rows, p = pooled_rows(psi, psi_plus, kernel)
    R = expectation(psi, psi_plus, kernel)
    k = psi.shape[1]
    C = [[sum(q * row[i] * row[j] for q, row in zip(p, rows, strict=True)) for j in range(k)] for i in range(k)]
    C = [[entry + ridge * (i == j) for j, entry in enumerate(line)] for i, line in enumerate(C)]
    A = [[(R[i][j] + R[j][i]) / 2 for j in range(k)] for i in range(k)]
    return torch.stack([torch.stack(line) for line in C]), torch.stack([torch.stack(line) for line in A])


def trace(psi: Tensor, psi_plus: Tensor, kernel: Tensor | None, ridge: float, centre: bool) -> Tensor:
    C, A = matrices(psi, psi_plus, kernel, ridge, centre)
    return -sum(torch.linalg.solve(C, A).diagonal())


def logdet(psi: Tensor, psi_plus: Tensor, kernel: Tensor | None, ridge: float, centre: bool, tau: float) -> Tensor:
    C, A = matrices(psi, psi_plus, kernel, ridge, centre)
    variance, basis = torch.linalg.eigh(C)
    whiten = basis / variance.sqrt()
    loss = torch.zeros((), dtype=torch.float64)
    for mu in torch.linalg.eigvalsh(whiten.T @ A @ whiten):
        loss = loss - ((mu + tau).log() if float(mu.detach()) >= 0 else math.log(tau) + mu / tau)
    return loss


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("options", [{"ridge": 0.05, "centre": True}, {"ridge": 0.3, "centre": False}], ids=str)
class TestEquation:
    def test_trace(self, kernel: str, options: dict[str, Any]) -> None:
        assert_matches(RitzTrace(**options), functools.partial(trace, **options), kernel)

    def test_logdet(self, kernel: str, options: dict[str, Any]) -> None:
        assert_matches(RitzLogDet(tau=0.2, **options), functools.partial(logdet, tau=0.2, **options), kernel)


def test_logdet_is_a_difference_of_determinants_where_all_is_positive() -> None:
    """- sum log(mu + tau) = log det(C) - log det(A + tau C)."""
    psi, _, _ = example("pairs", B=12)
    K = psi @ psi.T + torch.eye(12, dtype=torch.float64)
    C, A = matrices(psi, psi, K, 0.1, False)
    expected = torch.logdet(C) - torch.logdet(A + 0.3 * C)
    torch.testing.assert_close(RitzLogDet(tau=0.3, ridge=0.1, centre=False)(psi, psi, K), expected)


@every_form
@pytest.mark.parametrize("kernel", ["pairs", "weights", "block"])
def test_gradient(objective: nn.Module, kernel: str) -> None:
    psi, psi_plus, K = example(kernel, B=6, k=3)
    inputs = (psi.requires_grad_(), psi_plus.requires_grad_())
    assert torch.autograd.gradcheck(lambda x, y: objective(x, y, K), inputs)


@pytest.mark.parametrize("objective", [RitzTrace(ridge=0), RitzLogDet(ridge=0)], ids=["trace", "logdet"])
def test_every_basis_of_a_space_has_the_same_loss(objective: nn.Module) -> None:
    psi, psi_plus, _ = example("pairs", B=20, k=4)
    mix = torch.randn(4, 4, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    torch.testing.assert_close(objective(psi @ mix, psi_plus @ mix), objective(psi, psi_plus), rtol=1e-9, atol=1e-9)


def test_centring_leaves_the_constant_out() -> None:
    """A constant shift changes the loss only without centring."""
    psi, psi_plus, _ = example("pairs", B=20)
    torch.testing.assert_close(RitzTrace()(psi + 3, psi_plus + 3), RitzTrace()(psi, psi_plus))
    uncentred = RitzTrace(centre=False)
    assert not torch.allclose(uncentred(psi + 3, psi_plus + 3), uncentred(psi, psi_plus))


@pytest.mark.slow
@pytest.mark.parametrize("centre", [False, True], ids=["with the constant", "without"])
@pytest.mark.parametrize("name", ["trace", "logdet"])
def test_training_finds_the_span_of_the_leading_eigenfunctions(name: str, centre: bool) -> None:
    mu, phi, kernel = relation()
    objective = RitzTrace(1e-8, centre) if name == "trace" else RitzLogDet(0.01, 1e-8, centre)
    codes = train(objective, pairs=centre)
    modes = slice(1, 5) if centre else slice(0, 4)
    codes = codes - codes.mean(0) if centre else codes
    basis = torch.linalg.qr(codes).Q
    torch.testing.assert_close(basis @ basis.T, phi[:, modes] @ phi[:, modes].T / 8, rtol=0, atol=1e-3)
    expected = mu[modes].sum() if name == "trace" else (mu[modes] + 0.01).log().sum()
    torch.testing.assert_close(-objective(codes, codes, kernel), expected, rtol=1e-5, atol=1e-5)


def test_logdet_prefers_the_largest_eigenvalues_of_an_indefinite_kernel() -> None:
    """Eigenvalues are ordered by sign, not by size: -.1 before -.9."""
    phi = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q
    phi = phi * 5**0.5
    mu = torch.tensor([0.8, 0.3, -0.1, -0.6, -0.9], dtype=torch.float64)
    K = (phi * mu) @ phi.T
    for objective in (RitzTrace(0, centre=False), RitzLogDet(0.01, 0, centre=False)):
        losses = {last: float(objective(phi[:, [0, 1, last]], phi[:, [0, 1, last]], K)) for last in (2, 3, 4)}
        assert losses[2] < losses[3] < losses[4]


def test_without_a_ridge_repeated_features_are_handled() -> None:
    psi, psi_plus, _ = example("pairs", B=20)
    for dtype in (torch.float32, torch.float64):
        twice, twice_plus = (torch.cat([x, x], 1).to(dtype).requires_grad_() for x in (psi, psi_plus))
        for objective, tolerance in ((RitzTrace(ridge=0), 1e-2), (RitzLogDet(ridge=0), None)):
            loss = objective(twice, twice_plus)
            (gradient,) = torch.autograd.grad(loss, twice)
            assert torch.isfinite(loss) and torch.isfinite(gradient).all()
            if tolerance is not None:  # repeating gains nothing
                assert float(loss.detach()) == pytest.approx(float(objective(psi, psi_plus)), abs=tolerance)


@every_form
def test_a_diverged_network_gives_nan_and_no_exception(objective: nn.Module) -> None:
    psi, psi_plus, _ = example("pairs")
    psi[0, 0] = torch.inf
    assert torch.isnan(objective(psi, psi_plus))


@pytest.mark.parametrize(
    ("constructor", "options"),
    [(RitzTrace, {"ridge": -1.0}), (RitzTrace, {"ridge": "big"}), (RitzLogDet, {"tau": 0.0})],
)
def test_bad_options_are_named(constructor: Any, options: dict[str, Any]) -> None:
    with pytest.raises(EigenmapError, match=next(iter(options))):
        constructor(**options)
