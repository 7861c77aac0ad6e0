from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import GramNeuralEF, NeuralEF, shift_for

from .reference import (
    KERNELS,
    assert_matches,
    example,
    expectation,
    normalised,
    pooled_rows,
    probabilities,
    transposed,
)

Matrix = list[list[Tensor]]


def gram(held: tuple[Tensor, Tensor], moved: tuple[Tensor, Tensor], kernel: Tensor | None) -> Matrix:
    """G_ij = E[held_i moved_j] over the rows of both views."""
    left, p = pooled_rows(*held, kernel)
    right, _ = pooled_rows(*moved, kernel)
    k = len(left[0])
    return [[sum(q * a[i] * b[j] for q, a, b in zip(p, left, right, strict=True)) for j in range(k)] for i in range(k)]


def neuralef(
    psi: Tensor,
    psi_plus: Tensor,
    kernel: Tensor | None,
    alpha: float,
    ordered: bool = True,
    ratio: bool = False,
    shift: float = 0.0,
    small: float = 1e-3,
    scale: float = 1.0,
) -> Tensor:
    psi, psi_plus = normalised(psi, psi_plus, kernel, centre=False)
    k = psi.shape[1]
    loss = torch.zeros((), dtype=torch.float64)
    for x, y, K in ((psi, psi_plus, kernel), (psi_plus, psi, transposed(kernel))):
        held_x, held_y = (x.detach(), y.detach()) if ordered else (x, y)
        R, R_held = expectation(x, y, K), expectation(held_x, y, K)
        G, G_held = gram((x, y), (x, y), kernel), gram((held_x, held_y), (x, y), kernel)
        for j in range(k):
            loss = loss - ((1 - shift) * R[j][j] + shift * G[j][j])
            for i in range(j):
                entry = (1 - shift) * R_held[i][j] + shift * G_held[i][j]
                own = (1 - shift) * R[i][i] + shift * G[i][i]
                divisor = max(float(own.detach()), small) if ratio else 1.0
                loss = loss + alpha * entry**2 / divisor
    return scale * loss / (2 * k)


def gram_neuralef(
    psi: Tensor, psi_plus: Tensor, kernel: Tensor | None, b: float, unbiased: bool = False, centre: bool = True
) -> Tensor:
    psi, psi_plus = normalised(psi, psi_plus, kernel, centre=centre)
    k = psi.shape[1]
    R = expectation(psi, psi_plus, kernel)
    total = sum(1 / (j + 1) for j in range(k))
    loss = torch.zeros((), dtype=torch.float64)
    for j in range(k):
        payoff = R[j][j]
        for i in range(j):
            payoff = payoff - b * squared_gram(psi, psi_plus, kernel, i, j, unbiased)
        loss = loss - payoff / (j + 1) / total
    return loss


def squared_gram(psi: Tensor, psi_plus: Tensor, kernel: Tensor | None, i: int, j: int, unbiased: bool) -> Tensor:
    """G_ij^2 with psi_i held, as a sum over pairs of independent draws."""
    if kernel is not None and kernel.ndim == 2:
        rows, p = pooled_rows(psi, psi_plus, kernel)
        t = [row[i].detach() * row[j] for row in rows]
    else:
        p = probabilities(len(psi), kernel)
        views = zip(psi, psi_plus, strict=True)
        t = [(x[i].detach() * x[j] + y[i].detach() * y[j]) / 2 for x, y in views]
    total, mass = torch.zeros((), dtype=torch.float64), 0.0
    for n in range(len(t)):
        for m in range(len(t)):
            if not (unbiased and n == m):
                total = total + p[n] * p[m] * t[n] * t[m]
                mass += p[n] * p[m]
    return total / mass


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ordered": False},
        {"ratio": True},
        {"ratio": True, "ordered": False, "small": 0.9},
        {"shift": 0.3},
        {"shift": 0.5, "ratio": True, "scale": 20.0},
    ],
    ids=str,
)
def test_neuralef_is_its_equation(kernel: str, options: dict[str, Any]) -> None:
    reference = functools.partial(neuralef, alpha=0.7, **options)
    assert_matches(NeuralEF(alpha=0.7, **options), reference, kernel)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("centre", [False, True])
def test_gram_neuralef_is_its_equation(kernel: str, unbiased: bool, centre: bool) -> None:
    reference = functools.partial(gram_neuralef, b=0.8, unbiased=unbiased, centre=centre)
    assert_matches(GramNeuralEF(b=0.8, unbiased=unbiased, centre=centre), reference, kernel)


@pytest.mark.parametrize(("k", "alpha"), [(2048, 0.1), (8, 25.6)])
def test_alpha_paper_is_the_effective_strength_of_the_published_code(k: int, alpha: float) -> None:
    psi, psi_plus, _ = example("pairs", B=3, k=k)
    torch.testing.assert_close(NeuralEF()(psi, psi_plus), NeuralEF(alpha=alpha)(psi, psi_plus))


def test_scale_20_is_the_published_computation() -> None:
    """t R by rows scaled to column norm sqrt(2 t), halves added, both terms divided by k."""
    k, t = 5, 10.0
    psi, psi_plus, _ = example("pairs", B=7, k=k)
    norm = (psi.square().sum(0) + psi_plus.square().sum(0)).sqrt()
    a, b = psi / norm * (2 * t) ** 0.5, psi_plus / norm * (2 * t) ** 0.5
    M = a.T @ b
    reward = 2 * M.diagonal().sum() / k
    penalty = (M.triu(1).square().sum() + M.T.triu(1).square().sum()) / k
    alpha_paper = 0.005 * 4096 / k
    torch.testing.assert_close(NeuralEF(scale=20)(psi, psi_plus), alpha_paper * penalty - reward)


@pytest.mark.parametrize("objective", [NeuralEF(alpha=1.0), NeuralEF(alpha=1.0, ratio=True, shift=0.2), GramNeuralEF()])
def test_later_features_do_not_move_earlier_ones(objective: torch.nn.Module) -> None:
    """Changing the features after the third does not change the gradient of the first three."""
    psi, psi_plus, _ = example("pairs", k=6)
    gradients = []
    for seed in (1, 2):
        other, other_plus, _ = example("pairs", k=6, seed=seed)
        x = torch.cat([psi[:, :3], other[:, 3:]], 1).requires_grad_()
        y = torch.cat([psi_plus[:, :3], other_plus[:, 3:]], 1).requires_grad_()
        gradients.append(torch.autograd.grad(objective(x, y), (x, y)))
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one[:, :3], two[:, :3], rtol=1e-12, atol=1e-14)
        assert not torch.allclose(one[:, 3:], two[:, 3:])


def test_unordered_features_do_move_earlier_ones() -> None:
    psi, psi_plus, _ = example("pairs", k=2)
    x = psi.clone().requires_grad_()
    held, free = (torch.autograd.grad(NeuralEF(1.0, ordered=o)(x, psi_plus), x)[0] for o in (True, False))
    assert not torch.allclose(held[:, 0], free[:, 0])


def test_unbiased_gram_penalty_is_zero_in_the_mean_for_independent_features() -> None:
    """For independent features and views the plain square has mean 1 / (2 B), the U-statistic zero."""
    B, draws = 8, 400
    generator = torch.Generator().manual_seed(0)
    means = {}
    for unbiased in (False, True):
        penalty = GramNeuralEF(b=1.0, unbiased=unbiased)
        agreement = GramNeuralEF(b=0.0)
        total = 0.0
        for _ in range(draws):
            psi = torch.randn(B, 2, generator=generator)
            psi_plus = torch.randn(B, 2, generator=generator)
            total += float(penalty(psi, psi_plus) - agreement(psi, psi_plus)) * 3  # w_2 = 1/3
        means[unbiased] = total / draws
    assert means[False] > 0.04
    assert abs(means[True]) < 0.015


@pytest.mark.parametrize(
    ("constructor", "options"),
    [
        (NeuralEF, {"alpha": -1.0}),
        (NeuralEF, {"alpha": "big"}),
        (NeuralEF, {"alpha": float("nan")}),
        (NeuralEF, {"shift": 1.5}),
        (NeuralEF, {"small": 0}),
        (NeuralEF, {"scale": 0}),
        (GramNeuralEF, {"b": -0.1}),
    ],
)
def test_bad_options_are_named(constructor: Any, options: dict[str, Any]) -> None:
    with pytest.raises(EigenmapError, match=next(iter(options))):
        constructor(**options)


# Strength


def test_the_threshold_is_the_ordering_condition() -> None:
    mu = torch.tensor([0.9, 0.7, 0.5, 0.3, 0.15], dtype=torch.float64)
    by_hand = max((mu[i] - mu[j]) / mu[i] ** 2 for j in range(5) for i in range(j))
    assert NeuralEF(alpha=1.0).ordering_threshold(mu) == pytest.approx(float(by_hand))
    assert NeuralEF(alpha=1.0).ordering_threshold(mu.flip(0)) == pytest.approx(float(by_hand))
    assert NeuralEF(alpha=1.0, ratio=True).ordering_threshold(mu) == pytest.approx(1 - 0.15 / 0.9)
    shifted = [(m + 1) / 2 for m in mu.tolist()]
    by_hand = max((shifted[i] - shifted[j]) / shifted[i] ** 2 for j in range(5) for i in range(j))
    assert NeuralEF(alpha=1.0, shift=0.5).ordering_threshold(mu) == pytest.approx(by_hand)
    assert NeuralEF(alpha=1.0).ordering_threshold(torch.tensor([0.5, 0.0, -0.2])) == float("inf")
    assert NeuralEF(alpha=1.0).ordering_threshold(torch.tensor([])) == 0


def test_the_strength_of_the_paper_depends_on_k() -> None:
    assert NeuralEF().strength(2048) == pytest.approx(0.1)
    assert NeuralEF(alpha=3.0).strength(2048) == 3.0


@pytest.mark.parametrize("smallest", [0.3, 0.0, -0.2, -1.0])
def test_the_shift_lifts_every_eigenvalue_to_the_margin(smallest: float) -> None:
    c = shift_for(smallest)
    lowest = (1 - c) * min(smallest, 0.0) + c
    assert lowest == pytest.approx(0.5)
    mu = torch.linspace(1, smallest, 40, dtype=torch.float64)
    assert NeuralEF(shift=c).ordering_threshold(mu) <= 1 / (4 * 0.5) + 1e-9
