r"""Rayleigh quotient of the span: every basis of the same function space has the same loss.

The penalties of NeuralEF require each feature to be an eigenfunction by itself. Here the loss depends only on
the space spanned by the features, through the Ritz values of the relation within it; alignment (`eigenmap.spectrum`)
then computes the exact rotation to ordered eigenfunctions. On kernels this finds small eigenvalues that the penalties
miss.
"""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from eigenmap.core.devices import precise
from eigenmap.objectives.moments import join, l2_normalise, standardise
from eigenmap.objectives.objective import Objective, number, switch


class RitzTrace(Objective):
    r"""Sum of the Ritz values.

        loss = - trace{ (C + ridge I)^-1 A } = - sum_j mu_j

        C = E[psi psi^T] pooled over both views,   A = sym E[psi psi_plus^T]

    psi is standardised over both views first, so the ridge is in units of the variance of a feature. With ridge 0 the
    loss is - sum_j mu_j of the generalised eigenproblem A v = mu C v, whose minimum over all psi is minus the sum of
    the k largest (signed) eigenvalues, attained by every basis of the leading eigenfunctions.

    `ridge` damps directions of small variance. From a batch of B pairs, C and A are noisy, and the best of k noisy
    directions looks like signal: keep the default ridge, and B several times k. With exact or full-batch moments use a
    small ridge, such as 1e-6. It is never below the rounding error of C.

    `centre=False` does not centre the features (they keep second moment 1), for kernels whose leading eigenfunctions
    have a non-zero mean, such as the Gaussian kernel. Relations of augmented views have the constant as their first
    eigenfunction; centring removes it.

    [1] Pfau, Petersen, Agarwal, Barrett, Stachenfeld: Spectral Inference Networks, ICLR 2019.

    Example::

        objective = RitzTrace(ridge=1e-6, centre=False)
        loss = objective(psi, psi_plus, kernel(x, x_plus))
        loss.backward()
    """

    summary = "sum of the eigenvalues within the span of the features; order comes from alignment"

    def __init__(self, ridge: float = 0.05, centre: bool = True) -> None:
        super().__init__()
        self.ridge = number("ridge", ridge)
        self.centre = switch("centre", centre)

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        return -self.quotient(psi, psi_plus, weights, gram).trace().to(psi.dtype).to(psi.device)

    def quotient(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        """Return L^-1 A L^-T with C + ridge I = L L^T, symmetric in float64, whose eigenvalues are the Ritz values."""
        normalise = standardise if self.centre else l2_normalise
        psi, psi_plus = normalise(psi, psi_plus, weights=weights)
        rows = join(psi, psi_plus, weights, gram)
        h = rows.pooled()
        return ritz_quotient(h.T @ h, rows.psi.T @ rows.partner, self.ridge)


def ritz_quotient(C: Tensor, R: Tensor, ridge: float) -> Tensor:
    """Return L^-1 A L^-T with C + ridge I = L L^T and A = sym R, from the moments of any number of blocks.

    The ridge is never below the rounding error of C.
    """
    k = len(C)
    ridge = max(ridge, k * torch.finfo(C.dtype).eps)
    C, R = precise(C), precise(R)
    # The variant without an error check does not wait for the device; the ridge keeps C positive definite.
    L, _ = torch.linalg.cholesky_ex(C + ridge * torch.eye(k, dtype=C.dtype, device=C.device))
    half = torch.linalg.solve_triangular(L, (R + R.T) / 2, upper=False)
    quotient: Tensor = torch.linalg.solve_triangular(L, half.T, upper=False)
    return quotient


class RitzLogDet(RitzTrace):
    r"""Sum of the logarithms of the Ritz values: small eigenvalues count as much as large ones.

        loss = - sum_j log(mu_j + tau),   mu_j the eigenvalues of (C + ridge I)^-1 A

    For mu_j < 0 the logarithm continues as its tangent at 0, log(tau) + mu_j / tau: the sum stays increasing and
    concave in every mu_j and is defined for indefinite kernels and noisy batches, and its minimum is the space of the k
    largest eigenvalues, as for `RitzTrace`. The trace hardly improves once the large eigenvalues are right. Here a gain
    counts relative to mu_j + tau: eigenvalues well above tau are learned at the same pace, those below it hardly at
    all.

    `ridge` and `centre` are as in `RitzTrace`. The Ritz values are computed by a symmetric eigenvalue solver with k^3
    operations, which are slow on a GPU and make the host wait: meant for k up to a few hundred.

    Example::

        objective = RitzLogDet(tau=1e-4, ridge=1e-6, centre=False)
        loss = objective(psi, psi_plus, kernel(x, x_plus))
        loss.backward()
    """

    summary = "sum of the logarithms of these eigenvalues: small ones count as much as large ones"

    def __init__(self, tau: float = 0.1, ridge: float = 0.05, centre: bool = True) -> None:
        super().__init__(ridge=ridge, centre=centre)
        self.tau = number("tau", tau, zero=False)

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        M = self.quotient(psi, psi_plus, weights, gram)
        # The solver raises on NaN; a diverged network should give a NaN loss, as with other objectives.
        finite = M.isfinite().all()
        mu = torch.linalg.eigvalsh(torch.where(finite, M, 0.0))
        logarithms = (mu.clamp_min(0) + self.tau).log() + mu.clamp_max(0) / self.tau
        return torch.where(finite, -logarithms.sum(), torch.nan).to(psi.dtype).to(psi.device)
