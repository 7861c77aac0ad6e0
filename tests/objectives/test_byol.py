from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import BYOL

from .reference import assert_matches, example, normalised_rows, probabilities
from .test_simsiam import predictions


def distances(a: Tensor, b: Tensor) -> list[Tensor]:
    """Squared distances of rows of norm 1."""
    a, b = (normalised_rows(view, "normalised", 1.0) for view in (a, b))
    return [sum((x - y) ** 2 for x, y in zip(one, other, strict=True)) for one, other in zip(a, b, strict=True)]


@pytest.mark.parametrize("kernel", ["pairs", "weights"])
@pytest.mark.parametrize("taught", [False, True])
def test_is_its_equation(kernel: str, taught: bool) -> None:
    objective = BYOL(hidden=5)
    objective.begin(4, seed=2)
    targets = example("pairs", seed=9)[:2] if taught else None

    def reference(psi: Tensor, psi_plus: Tensor, K: Tensor | None) -> Tensor:
        t, t_plus = (psi.detach(), psi_plus.detach()) if targets is None else targets
        p, p_plus = predictions(objective.predictor, psi, psi_plus, K)
        halves = distances(p, t_plus), distances(p_plus, t)
        shares = probabilities(len(psi), K)
        return sum(q * (one + other) for q, one, other in zip(shares, *halves, strict=True))

    assert_matches(lambda *given: objective(*given, targets), reference, kernel)  # type: ignore[arg-type]


def test_no_gradient_goes_to_the_targets() -> None:
    psi, psi_plus, _ = example("pairs")
    targets = (psi.clone().requires_grad_(), psi_plus.clone().requires_grad_())
    loss = BYOL(hidden=5)(psi.requires_grad_(), psi_plus, None, targets)
    assert torch.autograd.grad(loss, targets, allow_unused=True) == (None, None)


def test_the_momentum_rises_to_one_along_a_cosine() -> None:
    objective = BYOL(momentum=0.9)
    assert objective.momentum(0.0) == pytest.approx(0.9)
    assert objective.momentum(1 / 3) == pytest.approx(1 - 0.1 * (math.cos(math.pi / 3) + 1) / 2)
    assert objective.momentum(1.0) == 1.0


@pytest.mark.parametrize("momentum", [-0.1, 1.1, "high"])
def test_bad_momentum(momentum: object) -> None:
    with pytest.raises(EigenmapError, match="momentum must be a number at least 0 and at most 1"):
        BYOL(momentum=momentum)  # type: ignore[arg-type]
