r"""Rayleigh-Ritz step: the rotation from one set of pairs, its order and eigenvalues from another.

A v = mu (C + gamma I) v        on `fit`
mu_j = v_j^T A v_j / v_j^T C v_j        on `held_out`
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from eigenmap.core.arguments import is_number
from eigenmap.core.errors import EigenmapError
from eigenmap.spectrum.alignment import Alignment
from eigenmap.spectrum.moments import Moments

COLLAPSED = (
    "Every feature of the network is constant, so there is nothing to order: training has collapsed. "
    "A smaller rate (lr), gradients clipped (clip_norm) or another objective may help."
)


def align(fit: Moments, held_out: Moments, ridge: float = 0.0, *, centre: bool = True) -> Alignment:
    """Solve A v = mu (C + gamma I) v on `fit`; judge and sort the result on `held_out`.

    `ridge` is gamma in units of the mean variance of a feature. Directions in which C has no variance beyond
    rounding are dropped, so the rotation may have fewer than k columns.
    """
    if not (is_number(ridge) and ridge >= 0):
        raise EigenmapError(f"ridge must be a number of at least 0, not {ridge!r}.")
    judge = Judge.of(held_out, centre_of(fit, centre))
    return ritz(Principal.of(fit, judge.m), judge, ridge)


def own_order(fit: Moments, held_out: Moments, *, centre: bool = True) -> Alignment:
    """Keep the network's own features and their order; measure their eigenvalues on `held_out`."""
    return in_own_order(Judge.of(held_out, centre_of(fit, centre)))


def centre_of(fit: Moments, centre: bool) -> Tensor:
    """Return the mean of `fit`, or zeros if features are not to be centred."""
    return fit.mean() if centre else torch.zeros_like(fit.mean())


class Judge(NamedTuple):
    """Held-out moments about the mean m of `fit`; all candidates are measured on them."""

    m: Tensor
    C: Tensor
    A: Tensor
    noise: float

    @classmethod
    def of(cls, held_out: Moments, m: Tensor) -> Judge:
        """Return the moments of `held_out` about m."""
        return cls(m, *held_out.about(m), held_out.noise())

    def quotients(self, rotation: Tensor) -> tuple[Tensor, Tensor]:
        """Return eigenvalue and variance of each column of a rotation."""
        shared, power = ((rotation * (M @ rotation)).sum(0) for M in (self.A, self.C))  # v^T M v of each column v
        return quotients(shared, power)


ROUNDING = 1e-9
"""Share of the largest variance below which a direction counts as rounding."""


class Directions(NamedTuple):
    """Directions in which a matrix C has variance beyond rounding.

    Features are compared at equal variance, so their units do not matter: one that varies by 0.01 beside others that
    vary by 1,000 is no rounding, whereas a feature made of others leaves a direction without variance in any units.
    """

    variance: Tensor  # the largest eigenvalues of C, ascending
    basis: Tensor
    whiten: Tensor | None  # W with W^T C W = I, if the eigenvectors of C are not precise enough for it

    @classmethod
    def of(cls, C: Tensor) -> Directions:
        """Find the directions; there are none if C is zero."""
        variance, basis = torch.linalg.eigh(C)
        if variance[0] > len(C) * ROUNDING * variance[-1]:  # so the smallest is no rounding in any units
            return cls(variance, basis, None)
        deviation = C.diagonal().clamp(min=0).sqrt()
        scale = torch.where(deviation > 0, 1 / deviation, 0.0)
        power, turned = torch.linalg.eigh(scale[:, None] * C * scale)
        keep = power > power[-1].clamp(min=0) * ROUNDING
        whiten = scale[:, None] * turned[:, keep] * power[keep].rsqrt()
        first = len(C) - whiten.shape[1]
        least = variance[-1] * torch.finfo(C.dtype).eps
        return cls(variance[first:].clamp(min=least), basis[:, first:], whiten)

    def whitening(self, gamma: float = 0.0) -> Tensor:
        """Return W with W^T (C + gamma I) W = I."""
        if self.whiten is not None and not gamma:
            return self.whiten
        return self.basis * (self.variance + gamma).rsqrt()


class Principal(NamedTuple):
    """Moments of `fit` without the directions that have no variance; computed once for all ridges."""

    A: Tensor
    directions: Directions
    shared: Tensor  # A in the basis of the directions
    unit: float  # mean variance of a feature

    @classmethod
    def of(cls, fit: Moments, m: Tensor) -> Principal:
        """Diagonalise C of `fit` about m; raise if no feature varies."""
        C, A = fit.about(m)
        found = Directions.of(C)
        if not len(found.variance):
            raise EigenmapError(COLLAPSED)
        return cls(A, found, found.basis.T @ A @ found.basis, float(C.diagonal().mean()))

    def whitened(self, ridge: float) -> tuple[Tensor, Tensor]:
        """Return W with W^T (C + gamma I) W = I, and W^T A W."""
        W = self.directions.whitening(ridge * self.unit)
        if W is self.directions.whiten:
            return W, W.T @ self.A @ W
        scale = (self.directions.variance + ridge * self.unit).rsqrt()
        return W, scale[:, None] * self.shared * scale  # no product of matrices for each ridge


def ritz(principal: Principal, judge: Judge, ridge: float) -> Alignment:
    """Solve the eigenproblem for one ridge, and sort the solutions by their held-out eigenvalues."""
    W, shared = principal.whitened(ridge)
    _, vectors = torch.linalg.eigh(shared)
    return _sorted(W @ vectors.flip(1), judge, ridge)


def in_own_order(judge: Judge) -> Alignment:
    """Return the alignment that leaves features as they are."""
    m, C, A, noise = judge
    mu, power = quotients(A.diagonal(), C.diagonal())
    return Alignment(m, torch.eye(len(m)).to(m), _settled(mu, noise), power, own_order=True, noise=noise)


def quotients(shared: Tensor, power: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalue and variance of each feature; the eigenvalue is 0 for a feature without held-out variance."""
    return torch.where(power > 0, shared / power.clamp(min=1e-300), 0.0), power


def _sorted(rotation: Tensor, judge: Judge, ridge: float) -> Alignment:
    """Sort the columns of `rotation`, which come in the order of `fit`, by their held-out eigenvalues.

    Only features whose eigenvalues exceed the noise move. The others keep the order of `fit`, which is independent of
    the held-out noise: if they were sorted too, the luckiest of many zeros would come first and look real.
    """
    noise = judge.noise
    mu, power = judge.quotients(rotation)
    order = mu.masked_fill(_doubtful(mu, noise), 0.0).sort(descending=True, stable=True).indices
    rotation = rotation[:, order]
    rotation, mu = rotation * signs(rotation), _settled(mu[order], noise)
    return Alignment(judge.m, rotation, mu, power[order], ridge=ridge, noise=noise)


def signs(vectors: Tensor) -> Tensor:
    """Return the sign, 1 or -1, of the largest entry of each column: (1, r).

    The sign of an eigenvector or singular vector is arbitrary; multiplying by this one makes equal runs give equal
    codes.
    """
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    return torch.where(largest < 0, -1.0, 1.0).to(vectors)


def _doubtful(mu: Tensor, noise: float) -> Tensor:
    """Mark eigenvalues that may be zero; if all k are zero, all are marked with probability 0.99."""
    return mu.abs() <= noise * math.sqrt(2 * math.log(100 * len(mu)))


def _settled(mu: Tensor, noise: float) -> Tensor:
    """Make the doubtful eigenvalues descend by averaging neighbours; this removes noise and keeps their sum."""
    doubtful = _doubtful(mu, noise)
    return mu.masked_scatter(doubtful, _descending(mu[doubtful]))


def _descending(values: Tensor) -> Tensor:
    """Return the descending sequence nearest to `values` in least squares: each ascending run becomes its mean."""
    runs: list[tuple[float, int]] = []
    for value in values.tolist():
        total, size = value, 1
        while runs and runs[-1][0] * size < total * runs[-1][1]:
            earlier = runs.pop()
            total, size = total + earlier[0], size + earlier[1]
        runs.append((total, size))
    return values.new_tensor([total / size for total, size in runs for _ in range(size)])
