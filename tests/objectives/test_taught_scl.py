from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import TaughtSpectralContrastive, build

from .reference import assert_matches, example, normalised_rows, probabilities


def half(rows: Tensor, targets: Tensor, K: Tensor | None) -> Tensor:
    """-2 E[z . t] + mean over b != b' of (z_b . t_b')^2, pair by pair."""
    z, t = (normalised_rows(view, "normalised", 3.0) for view in (rows, targets))
    p = probabilities(len(rows), K)
    products = [[sum(x * y for x, y in zip(one, other, strict=True)) for other in t] for one in z]
    attraction = sum(p[b] * products[b][b] for b in range(len(z)))
    pairs = [(b, c) for b in range(len(z)) for c in range(len(z)) if b != c]
    repulsion = sum(p[b] * p[c] * products[b][c] ** 2 for b, c in pairs) / sum(p[b] * p[c] for b, c in pairs)
    return repulsion - 2 * attraction


@pytest.mark.parametrize("kernel", ["pairs", "weights"])
@pytest.mark.parametrize("taught", [False, True])
def test_is_its_equation(kernel: str, taught: bool) -> None:
    objective = TaughtSpectralContrastive(scale=3.0)
    targets = example("pairs", seed=9)[:2] if taught else None

    def reference(psi: Tensor, psi_plus: Tensor, K: Tensor | None) -> Tensor:
        t, t_plus = (psi.detach(), psi_plus.detach()) if targets is None else targets
        return half(psi, t_plus, K) + half(psi_plus, t, K)

    assert_matches(lambda *given: objective(*given, targets), reference, kernel)  # type: ignore[arg-type]


def test_with_the_network_as_its_own_teacher_the_gradient_is_that_of_scl() -> None:
    gradients = []
    for name in ("scl-taught", "scl"):
        psi, psi_plus, _ = example("pairs")
        views = psi.requires_grad_(), psi_plus.requires_grad_()
        gradients.append(torch.autograd.grad(build(name)(*views), views))
    for taught, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(taught, plain)


def test_no_gradient_goes_to_the_targets() -> None:
    psi, psi_plus, _ = example("pairs")
    targets = (psi.clone().requires_grad_(), psi_plus.clone().requires_grad_())
    loss = TaughtSpectralContrastive()(psi.requires_grad_(), psi_plus, None, targets)
    assert torch.autograd.grad(loss, targets, allow_unused=True) == (None, None)


def test_the_momentum_rises_to_one_and_bad_values_are_refused() -> None:
    objective = TaughtSpectralContrastive(momentum=0.9)
    assert [objective.momentum(done) for done in (0.0, 0.5, 1.0)] == pytest.approx([0.9, 0.95, 1.0])
    with pytest.raises(EigenmapError, match="momentum must be a number at least 0 and at most 1"):
        TaughtSpectralContrastive(momentum=1.5)
    with pytest.raises(EigenmapError, match="scale"):
        TaughtSpectralContrastive(scale=0.0)
