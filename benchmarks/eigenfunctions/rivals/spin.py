r"""Spectral inference networks: the trace of the Rayleigh quotient, with a gradient that orders the features."""

from __future__ import annotations

import torch
from torch import Tensor

from eigenmap.objectives import Objective
from eigenmap.objectives.moments import join, l2_normalise


class SpIN(Objective):
    r"""The eigenvalue of feature j is that of its part orthogonal to the preceding features, which are held fixed.

        maximise sum_j Lambda_jj,   Lambda = L^-1 Pi L^-T,   E[psi psi^T] = L L^T,   Pi = E[psi T psi^T]

    Lambda_jj depends only on features 1 ... j, and its gradient is passed only to feature j. With the orthonormal
    features e = psi L^-T it is 2 g_j,

        g_j = (T e_j - sum_{i<=j} Lambda_ij e_i) / L_jj

    and the loss is -2 sum_j <g_j, psi_j> with g_j held constant: its value means nothing. On a full batch the moments
    are exact, and the moving averages that correct the bias of small batches are not needed.

    [1] Pfau, Petersen, Agarwal, Barrett, Stachenfeld: Spectral Inference Networks. ICLR 2019.
    """

    def __init__(self, ridge: float = 1e-10) -> None:
        super().__init__()
        self.ridge = ridge

    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        """Return a value whose gradient is minus the masked one."""
        rows = join(*l2_normalise(psi, psi_plus, weights=weights), weights, gram)
        f, applied = rows.psi.detach(), rows.partner.detach()
        L = torch.linalg.cholesky_ex(f.T @ f + self.ridge * torch.eye(f.shape[1]).to(f)).L
        e, Te = (torch.linalg.solve_triangular(L.T, v, upper=True, left=False) for v in (f, applied))
        g = (Te - e @ (e.T @ Te).triu()) / L.diagonal()
        return -2 * (g * rows.psi).sum()
