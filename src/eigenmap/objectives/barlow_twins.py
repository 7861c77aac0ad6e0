"""Barlow Twins: the cross-correlation of the two views pulled towards the identity."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from eigenmap.objectives.moments import join, squared_moments, standardise
from eigenmap.objectives.objective import Objective, number

PAPER_STRENGTH = 0.0051 * 8192
"""k * lambda of the published runs: 0.0204 / 0.0102 / 0.0051 at k = 2048 / 4096 / 8192."""


class BarlowTwins(Objective):
    r"""Redundancy reduction between two views.

        loss = scale * { sum_j (1 - R_jj)^2 + lambda * sum_{i != j} R_ij^2 },   R = E[psi psi_plus^T]

    psi and psi_plus are each standardised per feature over the global batch: each view by its own mean and
    variance. `lambda_="paper"` is 0.0051 * 8192 / k. The scale 0.024 is the published one: it sets the size
    of the loss, sums over features included, for LARS at learning rate 0.2 - 0.3 x batch / 256.

    [1] Zbontar, Jing, Misra, LeCun, Deny: Barlow Twins: Self-Supervised Learning via Redundancy
        Reduction, 2021.

    Example::

        objective = BarlowTwins()
        psi = projector(encoder(torch.cat([x, x_plus])))
        loss = objective(*psi.chunk(2))
        loss.backward()
    """

    summary = "cross-correlation of the two views close to the identity"
    takes_gram = False

    def __init__(self, lambda_: float | str = "paper", scale: float = 0.024) -> None:
        super().__init__()
        self.lambda_ = lambda_ if lambda_ == "paper" else number('lambda_ (or "paper")', lambda_)
        self.scale = number("scale", scale, zero=False)

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        lambda_ = PAPER_STRENGTH / psi.shape[1] if isinstance(self.lambda_, str) else self.lambda_
        (psi,) = standardise(psi, weights=weights)
        (psi_plus,) = standardise(psi_plus, weights=weights)
        rows = join(psi, psi_plus, weights, None)
        a, b = rows.psi, rows.partner
        # The entries of R = a^T b below its diagonal are those of b^T a above it.
        off_diagonal = squared_moments(a, b) + squared_moments(b, a)
        return self.scale * ((1 - rows.diagonal()).square().sum() + lambda_ * off_diagonal)
