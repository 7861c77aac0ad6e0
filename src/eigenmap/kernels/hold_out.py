r"""Regularisation of a Gram matrix's span by held-out points.

A kernel function can be evaluated anywhere, and probes keep the last layer smooth (`eigenmap.kernels.ritz`). A Gram
matrix cannot, and its entries may be noisy, like the edges of a random graph. Rayleigh-Ritz in a wide span then fits
the noise: in-sample eigenvalues look better, and the functions are worthless at other points.

Some points h are therefore kept out of training, and functions fitted to the others, t, are scored on the entries
between the two groups, whose noise they have not seen:

    mu_j = E_h[ phi_j(h) (T_t phi_j)(h) ] / E_h[phi_j^2]^1/2,     (T_t f)(h) = sum_t p_t K_ht f(t)

Candidates are spans cut at different singular values, after any number of training rounds; the best one maximises

    sum_j log( max(mu_j, 0) + MARGIN * noise )

so that small eigenvalues count as much as large ones, down to the noise of the matrix: the smallest standard error of
any mu_j of any candidate. Without noise in the matrix it is tiny, and a wide span wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eigenmap.kernels.ritz import DISTINCT, Span, orthonormal
from eigenmap.relations.operator import MatrixOperator

SHARE = 0.2
"""Share of the points that is held out."""
FEWEST = 20
"""Minimum number of points for holding some out."""
RIDGES = (DISTINCT, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
"""Candidate cuts of the span: smallest singular values that count, relative to the largest."""
MARGIN = 10.0
"""Eigenvalues closer to zero than this many standard errors hardly count."""


@dataclass(frozen=True, eq=False)
class Verdict:
    """Score of one candidate on held-out points.

    Attributes:
        ridge: cut of the span.
        eigenvalues: (k,) mu_j, zero for functions that the span does not have.
        errors: (k,) standard errors of the eigenvalues, infinite for missing functions.
        residual: mean relative distance of phi_j and T phi_j / mu_j at the held-out points.

    """

    ridge: float
    eigenvalues: Tensor
    errors: Tensor
    residual: float


class HeldOutGram:
    """Gram matrix whose points are split into a fitting group and a held-out group that judges the fit.

    The matrix is not copied: held-out points get probability zero.

    Args:
        operator: operator of the matrix.
        generator: draws the held-out points from those with non-zero weight.

    Attributes:
        rows: indices of the judging points.
        p: (n,) measure of the others.

    Example::

        held_out = HeldOutGram(operator, torch.Generator().manual_seed(0))
        verdicts = held_out.judge(span, k=4)
        solve(span, operator, 4, scale, seed=0, ridge=best_verdict(verdicts).ridge)

    """

    def __init__(self, operator: MatrixOperator, generator: torch.Generator) -> None:
        present = operator.p.nonzero().flatten()
        order = torch.randperm(len(present), generator=generator).to(present.device)
        self.rows = present[order[: max(2, round(SHARE * len(order)))]]
        self.judging = operator.p[self.rows] / operator.p[self.rows].sum()
        p = operator.p.index_fill(0, self.rows, 0.0)
        self.p = p / p.sum()
        self.operator = MatrixOperator(operator.x, operator.gram, self.p)

    def judge(self, span: Span, k: int) -> list[Verdict]:
        """Return one verdict per cut of the span that leaves as many functions as possible, up to k."""
        H = span(self.operator.x)
        basis, singular = orthonormal(H, self.p, DISTINCT)
        values = H @ basis
        images = self.operator.apply(values)
        A = (self.p[:, None] * values).T @ images
        values, images = values[self.rows], images[self.rows]
        verdicts = []
        for ridge in RIDGES:
            m = int((singular > ridge * singular[0]).sum())
            if m < min(k, len(singular)):
                break
            vectors = torch.linalg.eigh((A[:m, :m] + A[:m, :m].T) / 2)[1].flip(1)[:, :k]
            verdicts.append(self._verdict(ridge, values[:, :m] @ vectors, images[:, :m] @ vectors, k))
        return verdicts

    def training(self) -> MatrixOperator:
        """Return the matrix between the points that are not held out."""
        return self.operator.restrict(self.p.nonzero().flatten())

    def _verdict(self, ridge: float, phi: Tensor, image: Tensor, k: int) -> Verdict:
        tiny, p = torch.finfo(phi.dtype).tiny, self.judging[:, None]
        phi = phi / (p * phi.square()).sum(0).sqrt().clamp_min(tiny)
        mu = (p * phi * image).sum(0)
        distance = image - mu * phi
        eigenvalues, errors = torch.zeros(k).to(mu), torch.full((k,), torch.inf).to(mu)
        eigenvalues[: len(mu)] = mu
        errors[: len(mu)] = (p * phi * distance).square().sum(0).sqrt()
        size = (p * image.square()).sum(0).sqrt().clamp_min(tiny)
        residual = ((p * distance.square()).sum(0).sqrt() / size).mean()
        return Verdict(ridge, eigenvalues, errors, float(residual))


def best_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the first verdict with the largest score."""
    noise = min(float(verdict.errors.min()) for verdict in verdicts)
    offset = max(MARGIN * noise, 1e-300)
    return max(verdicts, key=lambda verdict: float((verdict.eigenvalues.clamp_min(0) + offset).log().sum()))
