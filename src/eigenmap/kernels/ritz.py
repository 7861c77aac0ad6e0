r"""Rayleigh-Ritz: from the hidden layer of a network to ordered eigenfunctions.

The last layer of a network is linear and need not be trained: among all functions h(x) W of the hidden layer h, the
best approximations to the eigenfunctions of T have a closed form. It takes two steps, in float64, on one joint block of
points:

1. Rayleigh-Ritz. With an orthonormal basis Q of the hidden layer in L2(p), the eigenvectors of Q^T T Q give functions
   u_1, u_2, ... with signed eigenvalues mu_1 >= mu_2 >= ...
2. An eigenfunction equals its own image: phi = T phi / mu, *everywhere*, including between the points and beyond them.
   The last layer is therefore the least-squares fit of h(z) W to (T u_j)(z) / mu_j over the points and over probes z
   scattered around them. Without the probes, the fit is perfect at the points and erratic where there are few of them
   (`benchmarks/eigenfunctions/choices.py` compares the two).

A k x k Rayleigh-Ritz step makes the fitted functions orthonormal and sorted again. They replace those of the first step
if they leave a smaller residual at the typical distance of new points. If that distance is large (few points for their
dimension), probes nearer to the points are tried too, because a small span cannot fit the entire space.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.relations.operator import Operator, uniform
from eigenmap.spectrum.ritz import signs

Span = Callable[[Tensor], Tensor]
"""x (B, d) -> (B, m) functions to be combined linearly."""

DISTINCT = 1e-8
"""Relative size below which directions of the hidden layer are rounding errors."""
NEGLIGIBLE = 1e-12
"""Relative size below which eigenvalues are zero."""
FITTED = 1e-8
"""Relative size below which singular values of the least-squares problem are ignored."""
NEAR = 0.25
"""Distance from the points at which the residual is measured, in standard deviations."""
SPREADS = (1.0, 0.5)
"""Spreads of the probes in standard deviations per coordinate; all but the first apply only if points are sparse."""
PROBE_WEIGHT = 0.4
"""Total weight of all probes; that of all points is 1."""
FEWEST_PROBES, MOST_PROBES = 1024, 16_384
"""Limits on the number of probes, which is four per point."""


@dataclass(frozen=True)
class Solution:
    """Ordered functions span(x) @ head.

    Attributes:
        head: (m, r) coefficients.
        eigenvalues: (r,) signed, in descending order, on the points of the operator.
        residual: (r,) relative distance between phi_j and T phi_j / mu_j at probes near the points.
        outside: (r,) the same at the typical distance of new points; equal if that is small.
        rank: number of non-zero eigenvalues in the span.
        spanned: number of functions of the span that the points can separate, an upper bound on the rank.

    """

    head: Tensor
    eigenvalues: Tensor
    residual: Tensor
    outside: Tensor
    rank: int
    spanned: int


def solve(span: Span, operator: Operator, k: int, scale: Tensor, seed: int, ridge: float = DISTINCT) -> Solution:
    """Return the k leading eigenfunctions of `operator` inside `span`.

    Args:
        span: functions of the points of the operator, as seen by the network.
        operator: T, in float64.
        k: number of eigenfunctions.
        scale: (d,) spread of each coordinate, by which probes are scattered.
        seed: seed of the probes.
        ridge: relative size below which singular values of the span are ignored; larger is smoother.

    """
    H = span(operator.x)
    if not bool(H.isfinite().all()):
        raise EigenmapError("The network returns NaN or infinity: training has diverged; lower learning_rate.")
    mu, head, spanned = rayleigh_ritz(H, operator, ridge)
    rank = len(mu)
    if rank == 0:
        raise EigenmapError("The kernel is zero on this data: it has no eigenfunctions. Check it and its parameters.")
    mu, head = mu[:k], head[:, :k]
    distance = max(NEAR, spacing(operator, scale)) if operator.extends else NEAR
    outside = _residual(span, head, mu, operator, distance * scale, seed + 1)
    basis, found = H @ head, mu
    for spread in _spreads(operator, distance):
        fitted = _fit_everywhere(span, H, operator, basis, found, scale * spread, seed)
        values, rotation, _ = rayleigh_ritz(H @ fitted, operator, ridge)
        fitted = fitted @ rotation
        remaining = _residual(span, fitted, values, operator, distance * scale, seed + 1)
        # A span of few functions may not reach the probes, and fitting them would cost accuracy at the points.
        if len(values) == len(mu) and float(remaining.mean()) < float(outside.mean()):
            mu, head, outside = values, fitted, remaining
    residual = outside if distance == NEAR else _residual(span, head, mu, operator, NEAR * scale, seed + 1)
    return Solution(head * signs(H @ head), mu, residual, outside, rank, spanned)


def _spreads(operator: Operator, distance: float) -> tuple[float, ...]:
    if not operator.extends:
        return ()
    return SPREADS if distance > NEAR else SPREADS[:1]


def rayleigh_ritz(H: Tensor, operator: Operator, ridge: float = DISTINCT) -> tuple[Tensor, Tensor, int]:
    """Return signed eigenvalues of T in the span of the columns of H, coefficients of the functions, span dimension.

    The functions are orthonormal in L2(p). Functions that T maps to zero are left out.
    """
    basis, _ = orthonormal(H, operator.p, ridge)
    values = H @ basis
    A = (operator.p[:, None] * values).T @ operator.apply(values)
    if not bool(A.isfinite().all()):
        raise EigenmapError("The kernel returns NaN or infinity for some of the points; check it and their scale.")
    mu, vectors = torch.linalg.eigh((A + A.T) / 2)
    mu, vectors = mu.flip(0), vectors.flip(1)
    present = mu.abs() > NEGLIGIBLE * mu.abs().max()
    return mu[present], basis @ vectors[:, present], basis.shape[1]


def orthonormal(H: Tensor, p: Tensor, ridge: float = DISTINCT) -> tuple[Tensor, Tensor]:
    """Return coefficients (m, r) of an orthonormal basis of the columns of H in L2(p), and the singular values.

    Columns are normalised first. Directions below `ridge` times the largest singular value are left out.
    """
    rows = p.sqrt()[:, None] * H
    size = rows.norm(dim=0).clamp_min(torch.finfo(H.dtype).tiny)
    # Singular values of the rows: those of C = H^T P H would be squared, losing half of their digits.
    R = torch.linalg.qr(rows / size, mode="r").R
    _, singular, Wt = torch.linalg.svd(R, full_matrices=False)
    keep = singular > ridge * singular[0]
    return (Wt[keep] / singular[keep, None]).T / size[:, None], singular[keep]


def _fit_everywhere(
    span: Span, H: Tensor, operator: Operator, u: Tensor, mu: Tensor, scale: Tensor, seed: int
) -> Tensor:
    """Fit span(z) W to (T u)(z) / mu by least squares over the points and over probes around them."""
    n = len(H)
    z = probes(operator, min(max(4 * n, FEWEST_PROBES), MOST_PROBES), scale, seed)
    targets = torch.cat([operator.apply(u), operator.at(z, u)]) / mu
    rows = torch.cat([H, span(z)])
    weight = torch.cat([operator.p, PROBE_WEIGHT * uniform(len(z)).to(operator.p)]).sqrt()[:, None]
    # A user's kernel may be undefined away from the data; such probes are ignored.
    valid = targets.isfinite().all(1)
    return least_squares(rows[valid] * weight[valid], targets[valid] * weight[valid])


def least_squares(rows: Tensor, targets: Tensor) -> Tensor:
    """Return the smallest W that minimises |rows W - targets|, ignoring directions that are rounding errors."""
    size = rows.norm(dim=0).clamp_min(torch.finfo(rows.dtype).tiny)
    Q, R = torch.linalg.qr(rows / size)
    U, singular, Wt = torch.linalg.svd(R, full_matrices=False)
    keep = singular > FITTED * singular[0]
    solution: Tensor = Wt[keep].T @ ((U[:, keep].T @ (Q.T @ targets)) / singular[keep, None])
    return solution.div(size[:, None])


def probes(operator: Operator, count: int, scale: Tensor, seed: int) -> Tensor:
    """Draw points from p and move each by normal noise of size `scale`."""
    generator = torch.Generator().manual_seed(seed % 2**63)
    # By cumulative probabilities: torch.multinomial is limited to 2^24 points.
    at = torch.rand(count, generator=generator, dtype=torch.float64)
    cumulated = operator.p.cumsum(0).cpu()
    drawn = torch.searchsorted(cumulated / cumulated[-1], at).clamp_max_(len(cumulated) - 1)
    noise = torch.randn(count, operator.x.shape[1], generator=generator, dtype=torch.float64)
    return operator.x[drawn.to(operator.x.device)] + noise.to(operator.x) * scale


def spacing(operator: Operator, scale: Tensor) -> float:
    """Return the mean distance from a point to its nearest neighbour, in units of `scale`: typical for new points."""
    x = operator.x / scale
    if len(x) < 2:
        return 0.0
    nearest = torch.cdist(x[:1024], x).topk(2, dim=1, largest=False).values[:, 1]
    return float(nearest.mean())


def _residual(span: Span, head: Tensor, mu: Tensor, operator: Operator, distance: Tensor, seed: int) -> Tensor:
    # The total distance is fixed: in many dimensions the noise of the coordinates adds up.
    near = distance / operator.x.shape[1] ** 0.5
    z = probes(operator, 1024, near, seed) if operator.extends else operator.x
    phi = span(operator.x) @ head
    image = (operator.at(z, phi) if operator.extends else operator.apply(phi)) / mu
    valid = image.isfinite().all(1)
    image = image[valid]
    error, size = (span(z[valid]) @ head - image).norm(dim=0), image.norm(dim=0)
    residual: Tensor = error / size.clamp_min(torch.finfo(image.dtype).tiny)
    return residual
