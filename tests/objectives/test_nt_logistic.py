from __future__ import annotations

import functools

import pytest
import torch
from torch import Tensor

from eigenmap.objectives import NTLogistic

from .reference import assert_matches, normalised_rows, probabilities


def nt_logistic(psi: Tensor, psi_plus: Tensor, kernel: Tensor | None, temperature: float) -> Tensor:
    B = len(psi)
    z = [*normalised_rows(psi, "normalised", 1.0), *normalised_rows(psi_plus, "normalised", 1.0)]
    p = probabilities(B, kernel) * 2
    attraction = repulsion = torch.zeros((), dtype=torch.float64)
    mass = 0.0
    for a in range(2 * B):
        for c in range(2 * B):
            logit = z[a] @ z[c] / temperature
            if abs(a - c) == B:
                attraction = attraction - p[a] / 2 * torch.sigmoid(logit).log()
            elif a != c:
                repulsion = repulsion - p[a] * p[c] * torch.sigmoid(-logit).log()
                mass += p[a] * p[c]
    return attraction + repulsion / mass


@pytest.mark.parametrize("kernel", ["pairs", "weights"])
@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_is_its_equation(kernel: str, temperature: float) -> None:
    assert_matches(NTLogistic(temperature), functools.partial(nt_logistic, temperature=temperature), kernel)
