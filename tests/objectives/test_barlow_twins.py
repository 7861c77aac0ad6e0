from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigenmap.objectives import BarlowTwins

from .reference import assert_matches, example, expectation, probabilities


def standardised(view: Tensor, kernel: Tensor | None) -> Tensor:
    p = probabilities(len(view), kernel)
    features = []
    for j in range(view.shape[1]):
        m = sum(q * x for q, x in zip(p, view[:, j], strict=True))
        variance = sum(q * (x - m) ** 2 for q, x in zip(p, view[:, j], strict=True))
        features.append(torch.stack([(x - m) / variance.sqrt() for x in view[:, j]]))
    return torch.stack(features, 1)


def barlow_twins(psi: Tensor, psi_plus: Tensor, kernel: Tensor | None) -> Tensor:
    k = psi.shape[1]
    R = expectation(standardised(psi, kernel), standardised(psi_plus, kernel), kernel)
    loss = torch.zeros((), dtype=torch.float64)
    for i in range(k):
        for j in range(k):
            loss = loss + ((1 - R[i][i]) ** 2 if i == j else 0.0051 * 8192 / k * R[i][j] ** 2)
    return 0.024 * loss


@pytest.mark.parametrize("kernel", ["pairs", "weights"])
def test_is_its_equation(kernel: str) -> None:
    assert_matches(BarlowTwins(), barlow_twins, kernel)


@pytest.mark.parametrize(("k", "lambda_"), [(2048, 0.0204), (8, 5.2224)])
def test_paper_strength(k: int, lambda_: float) -> None:
    psi, psi_plus, _ = example("pairs", B=3, k=k)
    torch.testing.assert_close(BarlowTwins()(psi, psi_plus), BarlowTwins(lambda_=lambda_)(psi, psi_plus))
