r"""From the hidden layer of a network to ordered eigenfunctions: Rayleigh-Ritz, then least squares where it is free.

The last layer of a network is linear, so it need not be trained: among all functions h(x) W of the hidden layer h the
best approximations of the eigenfunctions of T have a closed form. Two steps, in float64, on one joint block of points:

1. Rayleigh-Ritz. With an orthonormal basis Q of the hidden layer in L2(p), the eigenvectors of Q^T T Q give functions
   u_1, u_2, ... with signed eigenvalues mu_1 >= mu_2 >= ...
2. An eigenfunction equals its own image: phi = T phi / mu, *everywhere*, also between the points and beyond them. So
   the last layer is the least-squares fit of h(z) W to (T u_j)(z) / mu_j over the points and over probes z scattered
   around them. Without the probes the fit is perfect at the points and wild where there are few of them
   (`benchmarks/eigenfunctions/choices.py` compares the two).

A k x k Rayleigh-Ritz step makes the fitted functions orthonormal and sorted again. They replace those of the first step
if they leave a smaller residual as far from the points as new points fall. Where that is far (few points for their
dimension), probes nearer to the points are tried too: a small span that has to reach everywhere is good nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.relations.operator import Operator, uniform

Span = Callable[[Tensor], Tensor]
"""x (B, d) -> (B, m) functions, of which linear combinations are taken."""

DISTINCT = 1e-8
"""Directions of the hidden layer below this share of the largest are rounding."""
NEGLIGIBLE = 1e-12
"""Eigenvalues below this share of the largest are zero."""
FITTED = 1e-8
"""Singular values of the least-squares problem that count, in shares of the largest."""
NEAR = 0.25
"""How far from the points the residual is measured, in standard deviations."""
SPREADS = (1.0, 0.5)
"""How far probes are scattered, in standard deviations of each coordinate; beyond the first where points are sparse."""
PROBE_WEIGHT = 0.4
"""Weight of all probes together; that of all points is 1."""
FEWEST_PROBES, MOST_PROBES = 1024, 16_384
"""Four for each point, within these bounds."""


@dataclass(frozen=True)
class Solution:
    """Ordered functions span(x) @ head.

    Attributes:
        head: (m, r) coefficients.
        eigenvalues: (r,) signed, largest first, on the points of the operator.
        residual: (r,) relative distance between phi_j and T phi_j / mu_j at probes near the points.
        outside: (r,) the same as far from the points as new points fall; equal where those are near.
        rank: number of eigenvalues that are not zero, of all that the span has.
        spanned: number of functions of the span that the points can tell apart; the rank cannot be more.

    """

    head: Tensor
    eigenvalues: Tensor
    residual: Tensor
    outside: Tensor
    rank: int
    spanned: int


def solve(span: Span, operator: Operator, k: int, scale: Tensor, seed: int, ridge: float = DISTINCT) -> Solution:
    """The k leading eigenfunctions of `operator` inside `span`.

    Args:
        span: functions of the points of the operator, as the network sees them.
        operator: T, in float64.
        k: how many.
        scale: (d,) spread of each coordinate: probes are scattered by so much.
        seed: of the probes.
        ridge: singular values of the span, in shares of the largest, that count; larger is smoother.

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
        # A span of few functions may not reach the probes, and would pay for them at the points.
        if len(values) == len(mu) and float(remaining.mean()) < float(outside.mean()):
            mu, head, outside = values, fitted, remaining
    residual = outside if distance == NEAR else _residual(span, head, mu, operator, NEAR * scale, seed + 1)
    return Solution(head * _signs(H @ head), mu, residual, outside, rank, spanned)


def _spreads(operator: Operator, distance: float) -> tuple[float, ...]:
    if not operator.extends:
        return ()
    return SPREADS if distance > NEAR else SPREADS[:1]


def rayleigh_ritz(H: Tensor, operator: Operator, ridge: float = DISTINCT) -> tuple[Tensor, Tensor, int]:
    """Signed eigenvalues of T in the span of the columns of H, coefficients of the functions, dimension of the span.

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
    """Coefficients (m, r) of an orthonormal basis of the columns of H in L2(p), and the singular values, falling.

    Columns count alike, whatever their size. Directions below `ridge` of the largest singular value are left out.
    """
    rows = p.sqrt()[:, None] * H
    size = rows.norm(dim=0).clamp_min(torch.finfo(H.dtype).tiny)
    # Singular values of the rows themselves: those of C = H^T P H would be squared, and half their digits lost.
    R = torch.linalg.qr(rows / size, mode="r").R
    _, singular, Wt = torch.linalg.svd(R, full_matrices=False)
    keep = singular > ridge * singular[0]
    return (Wt[keep] / singular[keep, None]).T / size[:, None], singular[keep]


def _fit_everywhere(
    span: Span, H: Tensor, operator: Operator, u: Tensor, mu: Tensor, scale: Tensor, seed: int
) -> Tensor:
    """Least squares of span(z) W against (T u)(z) / mu over the points and over probes around them."""
    n = len(H)
    z = probes(operator, min(max(4 * n, FEWEST_PROBES), MOST_PROBES), scale, seed)
    targets = torch.cat([operator.apply(u), operator.at(z, u)]) / mu
    rows = torch.cat([H, span(z)])
    weight = torch.cat([operator.p, PROBE_WEIGHT * uniform(len(z)).to(operator.p)]).sqrt()[:, None]
    # A user's kernel may not be defined off the data; such probes do not count.
    valid = targets.isfinite().all(1)
    return least_squares(rows[valid] * weight[valid], targets[valid] * weight[valid])


def least_squares(rows: Tensor, targets: Tensor) -> Tensor:
    """The smallest W that minimises |rows W - targets|, without the directions in which rows are rounding."""
    size = rows.norm(dim=0).clamp_min(torch.finfo(rows.dtype).tiny)
    Q, R = torch.linalg.qr(rows / size)
    U, singular, Wt = torch.linalg.svd(R, full_matrices=False)
    keep = singular > FITTED * singular[0]
    solution: Tensor = Wt[keep].T @ ((U[:, keep].T @ (Q.T @ targets)) / singular[keep, None])
    return solution.div(size[:, None])


def probes(operator: Operator, count: int, scale: Tensor, seed: int) -> Tensor:
    """Points of the measure p, each moved by normal noise of size `scale`."""
    generator = torch.Generator().manual_seed(seed % 2**63)
    # By the cumulated probabilities: torch.multinomial takes 2^24 points at most.
    at = torch.rand(count, generator=generator, dtype=torch.float64)
    cumulated = operator.p.cumsum(0).cpu()
    drawn = torch.searchsorted(cumulated / cumulated[-1], at).clamp_max_(len(cumulated) - 1)
    noise = torch.randn(count, operator.x.shape[1], generator=generator, dtype=torch.float64)
    return operator.x[drawn.to(operator.x.device)] + noise.to(operator.x) * scale


def spacing(operator: Operator, scale: Tensor) -> float:
    """Mean distance from a point to the nearest other one, in units of `scale`: so far off do new points fall."""
    x = operator.x / scale
    if len(x) < 2:
        return 0.0
    nearest = torch.cdist(x[:1024], x).topk(2, dim=1, largest=False).values[:, 1]
    return float(nearest.mean())


def _residual(span: Span, head: Tensor, mu: Tensor, operator: Operator, distance: Tensor, seed: int) -> Tensor:
    # So far away in whatever direction: in many dimensions noise adds up.
    near = distance / operator.x.shape[1] ** 0.5
    z = probes(operator, 1024, near, seed) if operator.extends else operator.x
    phi = span(operator.x) @ head
    image = (operator.at(z, phi) if operator.extends else operator.apply(phi)) / mu
    valid = image.isfinite().all(1)
    image = image[valid]
    error, size = (span(z[valid]) @ head - image).norm(dim=0), image.norm(dim=0)
    residual: Tensor = error / size.clamp_min(torch.finfo(image.dtype).tiny)
    return residual


def _signs(values: Tensor) -> Tensor:
    """Eigenfunctions have no sign: make each positive where it is largest, so that equal fits give equal codes."""
    largest = values.gather(0, values.abs().argmax(0, keepdim=True))
    return torch.where(largest < 0, -1.0, 1.0).to(values)
