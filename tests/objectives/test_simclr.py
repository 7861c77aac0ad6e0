from __future__ import annotations

import functools

import pytest
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import SimCLR

from .reference import assert_matches, normalised_rows, probabilities


def nt_xent(psi: Tensor, psi_plus: Tensor, kernel: Tensor | None, temperature: float) -> Tensor:
    B = len(psi)
    z = [*normalised_rows(psi, "normalised", 1.0), *normalised_rows(psi_plus, "normalised", 1.0)]
    p = probabilities(B, kernel) * 2
    loss = torch.zeros((), dtype=torch.float64)
    for a in range(2 * B):
        partner = (a + B) % (2 * B)
        positive = ((z[a] @ z[partner]) / temperature).exp()
        denominator = positive
        for c in range(2 * B):
            if c not in (a, partner):
                denominator = denominator + p[c] * B * ((z[a] @ z[c]) / temperature).exp()
        loss = loss - p[a] / 2 * (positive / denominator).log()
    return loss


@pytest.mark.parametrize("kernel", ["pairs", "weights"])
@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_is_its_equation(kernel: str, temperature: float) -> None:
    assert_matches(SimCLR(temperature), functools.partial(nt_xent, temperature=temperature), kernel)


def test_temperature_must_be_positive() -> None:
    with pytest.raises(EigenmapError, match=r"temperature.*0"):
        SimCLR(temperature=0.0)
