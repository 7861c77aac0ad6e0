r"""mu-EigenGame for functions: every feature climbs its own pseudo-gradient on the unit sphere of L2(p)."""

from __future__ import annotations

from torch import Tensor

from eigenmap.objectives import Objective
from eigenmap.objectives.moments import join, l2_normalise


class MuEigenGame(Objective):
    r"""Climb T psi_j, minus its components along the preceding features.

        g_j = T psi_j - sum_{i<j} <psi_j, T psi_i> psi_i,       E[psi_j^2] = 1, T the operator of the kernel

    g_j is not the gradient of any function, so the loss is -2 sum_j <g_j, psi_j> with g_j held constant: its value
    means nothing, its gradient is the update, and the normalisation of psi, through which the gradient flows, projects
    it onto the tangent of the sphere.

    [1] Gemp, McWilliams, Vernade, Graepel: EigenGame Unloaded: When Playing Games Is Better than Optimizing. ICLR 2022.
    """

    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        """Return a value whose gradient is minus the pseudo-gradient."""
        rows = join(*l2_normalise(psi, psi_plus, weights=weights), weights, gram)
        f, applied = rows.psi.detach(), rows.partner.detach()
        g = applied - f @ (applied.T @ f).triu(1)
        return -2 * (g * rows.psi).sum()
