"""Spectral contrastive loss (SCL): the span of the leading eigenfunctions, without order."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from typing_extensions import override

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives.moments import join, scale_rows
from eigenmap.objectives.objective import Objective, number

ROW_SCALINGS = ("normalised", "clipped", "raw")


class SpectralContrastive(Objective):
    r"""Attract the two ends of a pair, make everything else orthogonal.

        loss = - 2 E[z . z_plus] + mean over b != b' of (z_b . z_plus_b')^2

    z is psi with its rows normalised to norm sqrt(scale) ("normalised"), clipped to at most that norm
    ("clipped", the form with the guarantees of [1]) or untouched ("raw", whose optimum is z_j = sqrt(mu_j)
    phi_j up to a rotation). With a Gram block K the first term is - 2 mean of K_bb' z_b . z'_b' and the
    second is over all b, b'.

    [1] HaoChen, Wei, Gaidon, Ma: Provable Guarantees for Self-Supervised Deep Learning with Spectral
        Contrastive Loss, 2021.

    Example::

        objective = SpectralContrastive()
        psi = projector(encoder(torch.cat([x, x_plus])))
        loss = objective(*psi.chunk(2))
        loss.backward()
    """

    fusible = True

    def __init__(self, scale: float = 10.0, rows: str = "normalised") -> None:
        super().__init__()
        self.scale = number("scale", scale, zero=False)
        self.rows = check_rows(rows)
        self.summary = "spectral contrastive loss" + (", rows clipped instead of normalised" * (rows == "clipped"))

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        z, z_plus = (scale_rows(view, self.rows, self.scale) for view in (psi, psi_plus))
        rows = join(z, z_plus, weights, gram)
        attraction = rows.diagonal().sum()
        if gram is not None:
            return _all_squares(rows.psi, rows.psi_plus) - 2 * attraction
        own = (rows.psi * rows.psi_plus).sum(1).square().sum()
        return (_all_squares(rows.psi, rows.psi_plus) - own) / (1 - rows.collision) - 2 * attraction


def check_rows(rows: Any) -> str:
    """Return `rows` if it names a way to scale rows; else raise."""
    if rows not in ROW_SCALINGS:
        raise EigenmapError(f"rows must be one of {', '.join(ROW_SCALINGS)}, not {rows!r}")
    return str(rows)


def _all_squares(a: Tensor, b: Tensor) -> Tensor:
    """Return the sum of (a_b . b_b')^2 over all pairs of rows, via the smaller of two equivalent square matrices."""
    if max(len(a), len(b)) <= a.shape[1]:
        return (a @ b.T).square().sum()
    return ((a.T @ a) * (b.T @ b)).sum()
