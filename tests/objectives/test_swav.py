from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import SwAV

from .reference import assert_matches, example, normalised_rows, probabilities


def sinkhorn(s: Any, shares: list[float], epsilon: float, iterations: int) -> Any:
    """The published algorithm: rows (prototypes) and columns (samples) of a matrix are scaled in turn."""
    Q = np.exp(s.T / epsilon) * np.array(shares)
    Q /= Q.sum()
    for _ in range(iterations):
        Q /= Q.sum(1, keepdims=True) * len(Q)
        Q *= np.array(shares) / np.maximum(Q.sum(0), 1e-300)
    return (Q / np.maximum(Q.sum(0), 1e-300)).T


@pytest.mark.parametrize("kernel", ["pairs", "weights"])
@pytest.mark.parametrize("iterations", [1, 3])
def test_is_its_equation(kernel: str, iterations: int) -> None:
    objective = SwAV(prototypes=5, temperature=0.2, epsilon=0.1, iterations=iterations)
    objective.begin(4, seed=2)

    def reference(psi: Tensor, psi_plus: Tensor, K: Tensor | None) -> Tensor:
        shares = probabilities(len(psi), K)
        c = normalised_rows(objective.prototypes.detach().double(), "normalised", 1.0)
        scores = [normalised_rows(view, "normalised", 1.0) @ c.T for view in (psi, psi_plus)]
        q = [sinkhorn(view.detach().numpy(), shares, 0.1, iterations) for view in scores]
        loss = torch.zeros((), dtype=torch.float64)
        for view, other in ((0, 1), (1, 0)):
            for b, share in enumerate(shares):
                total = sum((value / 0.2).exp() for value in scores[view][b])
                for p, value in enumerate(scores[view][b]):
                    loss = loss - share / 2 * float(q[other][b, p]) * (value / 0.2 - total.log())
        return loss

    assert_matches(objective, reference, kernel)


def test_assignments_use_all_prototypes_equally() -> None:
    objective = SwAV(prototypes=4, iterations=200)
    s = torch.rand(12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    s[:, 0] += 0.1  # the best prototype of all
    q = objective.assign(s.clamp(max=1))
    torch.testing.assert_close(q.sum(1), torch.ones(12, dtype=torch.float64))
    torch.testing.assert_close(q.sum(0), torch.full((4,), 3.0, dtype=torch.float64), rtol=1e-4, atol=1e-4)


def test_prototypes_learn() -> None:
    objective = SwAV(prototypes=5)
    psi, psi_plus, _ = example("pairs")
    objective(psi, psi_plus).backward()
    assert objective.prototypes.grad is not None and float(objective.prototypes.grad.abs().max()) > 0


def test_views_that_agree_cost_little() -> None:
    objective = SwAV(prototypes=4)
    objective.begin(4)
    with torch.no_grad():
        objective.prototypes.copy_(torch.eye(4))
    psi = torch.eye(4).repeat(3, 1)
    agreed, crossed = (float(objective(psi, other).detach()) for other in (psi, psi.roll(1, 0)))
    assert agreed == pytest.approx(math.log(1 + 3 * math.exp(-10)), abs=1e-3) and crossed > agreed + 5


@pytest.mark.parametrize(
    ("option", "value"), [("prototypes", 0), ("epsilon", 0), ("temperature", -1), ("iterations", 0)]
)
def test_bad_options(option: str, value: object) -> None:
    with pytest.raises(EigenmapError, match=f"{option} must be"):
        SwAV(**{option: value})  # type: ignore[arg-type]
