r"""Closed-form solutions from moments, each an `Alignment` with held-out eigenvalues.

One space, the same map for both sides of a pair (solved by `spectrum.align`):

    A v = mu (C + gamma I) v,        A symmetrised

Two spaces, one map each: regularised canonical correlations, the leading linear singular functions of
p(x, y) / (p(x) p(y)),

    (C + gamma I)^-1/2 A (C_plus + gamma_plus I)^-1/2 = U diag(rho) V^T

with left map (C + gamma I)^-1/2 U and right map (C_plus + gamma_plus I)^-1/2 V. gamma is in units of the mean variance
of a feature of its side.

[1] Hotelling: Relations between two sets of variates, 1936.  [2] Vinod: Canonical ridge and econometrics, 1976.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.linear.moments import PairMoments, Sides
from eigenmap.spectrum import Alignment, Moments
from eigenmap.spectrum.ritz import Directions, Judge, signs


class TwoMaps(NamedTuple):
    """One map per side; both are the same object if there is one space."""

    left: Alignment
    right: Alignment

    def cut(self, n_components: int | None) -> TwoMaps:
        """Keep the first `n_components` features of both maps."""
        left = self.left.cut(n_components)
        return TwoMaps(left, left if self.right is self.left else self.right.cut(n_components))

    def moved(self, left: Tensor, right: Tensor) -> TwoMaps:
        """Return the maps of rows that were fitted minus `left` and `right`."""
        of_left = replace(self.left, mean=self.left.mean + left)
        one = self.right is self.left
        return TwoMaps(of_left, of_left if one else replace(self.right, mean=self.right.mean + right))


def canonical(fit: PairMoments, held_out: PairMoments, ridge: float = 0.0, *, centre: bool = True) -> TwoMaps:
    """Return the canonical maps of the two sides, sorted by the held-out correlation of their features."""
    of = fit.sides(centre)
    whiten, whiten_plus = damped_whitening(of.C, ridge), damped_whitening(of.C_plus, ridge)
    U, _, Vh = torch.linalg.svd(whiten.T @ of.A @ whiten_plus, full_matrices=False)
    return judged_maps(of, whiten @ U, whiten_plus @ Vh.T, held_out, ridge)


def exact(X: npt.NDArray[Any], Y: npt.NDArray[Any], ridge: float = 0.0) -> TwoMaps:
    """Return the canonical maps of matrices in memory, from all rows; precise even if means are far from 0."""
    means = [np.mean(side, axis=0, dtype=np.float64) for side in (X, Y)]
    x, y = (torch.from_numpy(side - mean) for side, mean in zip((X, Y), means, strict=True))
    moments = PairMoments(x.shape[1], y.shape[1])
    moments.update(x, y)
    return canonical(moments, moments, ridge).moved(*(torch.from_numpy(mean) for mean in means))


def judged_maps(of: Sides, left: Tensor, right: Tensor, held_out: PairMoments, ridge: float = 0.0) -> TwoMaps:
    """Return two maps with their features sorted by held-out correlation."""
    told = held_out.sides(centre=False)
    C, C_plus, A = _about(told, held_out, of.mean, of.mean_plus)
    power, power_plus = ((m * (c @ m)).sum(0) for m, c in ((left, C), (right, C_plus)))
    shared = (left * (A @ right)).sum(0)
    scale = (power.clamp(min=0) * power_plus.clamp(min=0)).sqrt()
    rho = torch.where(scale > 0, shared / scale.clamp(min=1e-300), 0.0).clamp(-1.0, 1.0)
    order = rho.sort(descending=True, stable=True).indices
    left, right, rho = left[:, order], right[:, order], rho[order]
    sign = signs(left)
    noise = held_out.noise()
    return TwoMaps(
        Alignment(of.mean, left * sign, rho, power[order], ridge=ridge, noise=noise),
        Alignment(of.mean_plus, right * sign, rho.clone(), power_plus[order], ridge=ridge, noise=noise),
    )


def _about(told: Sides, held_out: PairMoments, m: Tensor, m_plus: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return held-out moments about the means of the fit."""
    total = held_out.within[-1, -1]
    x, y = held_out.within[-1, :-1] / total, held_out.within_plus[-1, :-1] / total

    def shifted(S: Tensor, a: Tensor, b: Tensor, mean_a: Tensor, mean_b: Tensor) -> Tensor:
        return S - torch.outer(mean_a, b) - torch.outer(a, mean_b) + torch.outer(a, b)

    return (
        shifted(told.C, m, m, x, x),
        shifted(told.C_plus, m_plus, m_plus, y, y),
        shifted(told.A, m, m_plus, x, y),
    )


def principal(fit: Moments, held_out: Moments, *, centre: bool = True, whitened: float = 0.0) -> Alignment:
    """Return the principal components of both sides pooled; `whitened` = 1 scales them to unit variance, 0 does not."""
    m = fit.mean() if centre else torch.zeros_like(fit.mean())
    C, _ = fit.about(m)
    variance, basis = _axes(C)
    rotation = basis * variance.pow(-whitened / 2)
    return judged(rotation * signs(rotation), m, held_out)


def prefix(held_out: Moments) -> Alignment:
    """Return the identity: the unchanged vectors."""
    n = held_out.n_features
    eye = torch.eye(n, dtype=torch.float64, device=held_out.across.device)
    return judged(eye, eye.new_zeros(n), held_out, own_order=True)


def judged(rotation: Tensor, m: Tensor, held_out: Moments, own_order: bool = False) -> Alignment:
    """Return the map with the held-out eigenvalue and variance of each feature, in the given order."""
    judge = Judge.of(held_out, m)
    mu, power = judge.quotients(rotation)
    return Alignment(m, rotation, mu, power, own_order=own_order, noise=judge.noise)


def principal_axes(rows: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, leading principal axes scaled to unit variance, and deviation of the features of some rows."""
    mean = rows.mean(0)
    C = (rows - mean).T @ (rows - mean) / len(rows)
    variance, basis = _axes(C)
    return mean, basis[:, :count] * variance[:count].rsqrt(), C.diagonal().sqrt()


def rank(C: Tensor) -> int:
    """Return the number of directions in which C has variance beyond rounding; raise if there is none."""
    return len(_directions(C).variance)


def _directions(C: Tensor) -> Directions:
    found = Directions.of(C)
    if not len(found.variance):
        raise EigenmapError("Every feature of the vectors is constant, so there is nothing to learn.")
    return found


def _axes(C: Tensor) -> tuple[Tensor, Tensor]:
    """Return variances in descending order and their directions."""
    found = _directions(C)
    return found.variance.flip(0), found.basis.flip(1)


def damped_whitening(C: Tensor, ridge: float) -> Tensor:
    """Return W with W^T (C + gamma I) W = I, on the directions in which C has variance."""
    return _directions(C).whitening(ridge * float(C.diagonal().mean()))
