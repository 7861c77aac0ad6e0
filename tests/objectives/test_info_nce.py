from __future__ import annotations

import functools

import pytest
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import InfoNCE

from .reference import assert_matches, normalised_rows, probabilities


def info_nce(psi: Tensor, psi_plus: Tensor, kernel: Tensor | None, temperature: float) -> Tensor:
    B = len(psi)
    z, z_plus = (normalised_rows(side, "normalised", 1.0) for side in (psi, psi_plus))
    p = probabilities(B, kernel)
    loss = torch.zeros((), dtype=torch.float64)
    for b in range(B):
        for ahead in (True, False):
            positive = ((z[b] @ z_plus[b]) / temperature).exp()
            denominator = positive
            for c in range(B):
                if c != b:
                    cosine = z[b] @ z_plus[c] if ahead else z[c] @ z_plus[b]
                    denominator = denominator + p[c] * B * (cosine / temperature).exp()
            loss = loss - p[b] / 2 * (positive / denominator).log()
    return loss


@pytest.mark.parametrize("kernel", ["pairs", "weights"])
@pytest.mark.parametrize("temperature", [0.1, 0.5])
def test_is_its_equation(kernel: str, temperature: float) -> None:
    assert_matches(InfoNCE(temperature), functools.partial(info_nce, temperature=temperature), kernel)


def test_temperature_must_be_positive() -> None:
    with pytest.raises(EigenmapError, match=r"temperature.*0"):
        InfoNCE(temperature=0.0)
