"""VICReg: invariance between views, variance and decorrelation within each."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from eigenmap.objectives.moments import centre, join, mean, squared_moments
from eigenmap.objectives.objective import Objective, number


class VICReg(Objective):
    r"""Variance-invariance-covariance regularisation.

        loss = invariance * E[ |psi - psi_plus|^2 ] / k
             + variance   * 1/2 sum over views of  1/k sum_j max(0, 1 - sqrt(S_jj + 1e-4))
             + covariance * sum over views of      1/k sum_{i != j} S_ij^2

    S is the unbiased covariance matrix of psi (of psi_plus) over the global batch. The half in the second
    line is that of the published code, for which the weights 25, 25, 1 were chosen.

    [1] Bardes, Ponce, LeCun: VICReg: Variance-Invariance-Covariance Regularization, 2022.

    Example::

        objective = VICReg()
        psi = projector(encoder(torch.cat([x, x_plus])))
        loss = objective(*psi.chunk(2))
        loss.backward()
    """

    summary = "invariance, variance and covariance"
    takes_gram = False

    def __init__(self, invariance: float = 25.0, variance: float = 25.0, covariance: float = 1.0) -> None:
        super().__init__()
        self.invariance = number("invariance", invariance)
        self.variance = number("variance", variance)
        self.covariance = number("covariance", covariance)

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        k = psi.shape[1]
        distance = mean((psi - psi_plus).square(), weights=weights).mean()
        (psi,) = centre(psi, weights=weights)
        (psi_plus,) = centre(psi_plus, weights=weights)
        rows = join(psi, psi_plus, weights, None)
        hinge = covariance = psi.new_zeros(())
        for h in (rows.psi, rows.psi_plus):
            h = h / (1 - rows.collision) ** 0.5  # S = h^T h
            hinge = hinge + (1 - (h.square().sum(0) + 1e-4).sqrt()).relu().mean() / 2
            covariance = covariance + 2 * squared_moments(h, h) / k
        return self.invariance * distance + self.variance * hinge + self.covariance * covariance
