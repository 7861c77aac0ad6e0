r"""Moments of pairs (x, y) from two spaces, which may have different numbers of features.

    C = E[x x^T],   C_plus = E[y y^T],   A = E[x y^T]        (centred on request)

Sums are float64, over blocks of any size; sums of disjoint pairs can be merged in any order.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.spectrum import Moments


class Sides(NamedTuple):
    """Means and second moments of both sides, and the cross moment."""

    mean: Tensor
    mean_plus: Tensor
    C: Tensor
    C_plus: Tensor
    A: Tensor


class PairMoments(Moments):
    """`spectrum.Moments` whose two sides may have different numbers of features.

    If both sides have the same features, all methods of `Moments` apply.
    """

    def __init__(self, n_features: int, n_features_plus: int | None = None, device: torch.device | str = "cpu") -> None:
        super().__init__(n_features, device)
        other = n_features if n_features_plus is None else n_features_plus
        self.within_plus = torch.zeros(other + 1, other + 1, dtype=torch.float64, device=device)
        self.across = torch.zeros(n_features + 1, other + 1, dtype=torch.float64, device=device)

    @property
    def pairs(self) -> float:
        """Total weight of the pairs."""
        return float(self.within[-1, -1])

    def sides(self, centre: bool = True) -> Sides:
        """Return the moments of each side about its own mean (or about 0), not symmetrised."""
        total = self.within[-1, -1]
        S, S_plus, R = self.within / total, self.within_plus / total, self.across / total
        if not bool(S.isfinite().all() and S_plus.isfinite().all() and R.isfinite().all()):
            raise EigenmapError("The vectors have no finite moments: there are no pairs, or values are too large.")
        m, m_plus = S[-1, :-1], S_plus[-1, :-1]
        if not centre:
            return Sides(0 * m, 0 * m_plus, S[:-1, :-1], S_plus[:-1, :-1], R[:-1, :-1])
        return Sides(
            m,
            m_plus,
            _without_rounding(S[:-1, :-1] - torch.outer(m, m), S),
            _without_rounding(S_plus[:-1, :-1] - torch.outer(m_plus, m_plus), S_plus),
            R[:-1, :-1] - torch.outer(m, m_plus),
        )


def _without_rounding(C: Tensor, raw: Tensor) -> Tensor:
    """Set C to exactly 0 for features that vary only by rounding."""
    constant = C.diagonal() <= 1e-12 * raw.diagonal()[:-1]
    return C.masked_fill(constant[:, None] | constant, 0.0)
