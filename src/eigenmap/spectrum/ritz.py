r"""Rayleigh-Ritz step: the rotation from one set of pairs, its order and eigenvalues from another.

A v = mu (C + gamma I) v        on `fit`
mu_j = v_j^T A v_j / v_j^T C v_j        on `held_out`
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

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


class Principal(NamedTuple):
    """Moments of `fit` in the eigenbasis of C, without zero-variance directions; computed once for all ridges."""

    basis: Tensor
    variance: Tensor  # C
    shared: Tensor  # A
    unit: Tensor  # mean variance of a feature

    @classmethod
    def of(cls, fit: Moments, m: Tensor) -> Principal:
        """Diagonalise C of `fit` about m; raise if no feature varies."""
        C, A = fit.about(m)
        variance, basis = torch.linalg.eigh(C)
        keep = variance > variance[-1] * 1e-9
        if not bool(keep.any()):
            raise EigenmapError(COLLAPSED)
        basis = basis[:, keep]
        return cls(basis, variance[keep], basis.T @ A @ basis, C.diagonal().mean())


def ritz(principal: Principal, judge: Judge, ridge: float) -> Alignment:
    """Solve the eigenproblem for one ridge, and sort the solutions by their held-out eigenvalues."""
    basis, variance, shared, unit = principal
    whiten = (variance + ridge * unit).rsqrt()
    _, vectors = torch.linalg.eigh(whiten[:, None] * shared * whiten)
    return _sorted(basis @ (whiten[:, None] * vectors.flip(1)), judge, ridge)


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
