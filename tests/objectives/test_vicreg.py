from __future__ import annotations

import functools

import pytest
import torch
from torch import Tensor

from eigenmap.objectives import VICReg

from .reference import assert_matches, example, probabilities


def covariance(view: Tensor, kernel: Tensor | None, i: int, j: int) -> Tensor:
    """Unbiased covariance: half the mean product of differences between two draws."""
    p = probabilities(len(view), kernel)
    total, mass = torch.zeros((), dtype=torch.float64), 0.0
    for b in range(len(view)):
        for c in range(len(view)):
            if b != c:
                difference = view[b] - view[c]
                total = total + p[b] * p[c] * difference[i] * difference[j] / 2
                mass += p[b] * p[c]
    return total / mass


def vicreg(psi: Tensor, psi_plus: Tensor, kernel: Tensor | None, weights: tuple[float, float, float]) -> Tensor:
    k = psi.shape[1]
    p = probabilities(len(psi), kernel)
    distance = sum(q * ((x - y) ** 2).sum() for q, x, y in zip(p, psi, psi_plus, strict=True)) / k
    hinge = decorrelation = torch.zeros((), dtype=torch.float64)
    for view in (psi, psi_plus):
        for i in range(k):
            for j in range(k):
                s = covariance(view, kernel, i, j)
                if i == j:
                    hinge = hinge + (1 - (s + 1e-4).sqrt()).clamp(min=0) / (2 * k)
                else:
                    decorrelation = decorrelation + s**2 / k
    return weights[0] * distance + weights[1] * hinge + weights[2] * decorrelation


@pytest.mark.parametrize("kernel", ["pairs", "weights"])
@pytest.mark.parametrize("size", [1.0, 0.2], ids=["hinge at rest", "hinge at work"])
def test_is_its_equation(kernel: str, size: float) -> None:
    objective, reference = VICReg(20.0, 15.0, 2.0), functools.partial(vicreg, weights=(20.0, 15.0, 2.0))
    assert_matches(
        lambda x, y, K: objective(x * size, y * size, K), lambda x, y, K: reference(x * size, y * size, K), kernel
    )


def test_defaults_are_the_published_weights() -> None:
    psi, psi_plus, _ = example("pairs")
    torch.testing.assert_close(VICReg()(psi, psi_plus), vicreg(psi, psi_plus, None, (25.0, 25.0, 1.0)))
