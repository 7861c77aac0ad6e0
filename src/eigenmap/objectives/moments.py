r"""Building blocks of objectives: global batches, normalisations, moments and squared moments.

Notation: E is the mean over the pairs of the global batch (all processes; weighted if pairs have weights).

    R = E[psi psi_plus^T]                      cross moment of the two views
    C = E[psi psi^T], C+ = E[psi_plus psi_plus^T], G = their mean (pooled over both views)

Distribution. Every process computes the full loss, from rows joined by `gather` and statistics joined by `average`.
Averaging parameter gradients over the processes then gives the gradient of the global loss: the backward pass of
`gather` gives each of W processes W times the gradient of its own rows (the average divides by W again), and that of
`average` gives each process the mean of all gradients.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

VARIANCE_FLOOR = 1e-8
"""Variance below which a feature is dead: scaling it to one would only amplify rounding errors."""
NORM_FLOOR = 1e-6
"""Norm below which a row is dead."""


def world_size() -> int:
    """Return the number of processes that share the batch; 1 without torch.distributed."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.chunk(world_size())[dist.get_rank()] * world_size()


class _Average(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total / world_size()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _Average.forward(ctx, gradient)


def gather(x: Tensor) -> Tensor:
    """Return the rows of all processes in rank order, with gradient; every process must have the same number.

    `rows = gather(psi)` has shape (world size * B, k).
    """
    return x if world_size() == 1 else _Gather.apply(x)  # type: ignore[no-untyped-call]


def average(x: Tensor) -> Tensor:
    """Return the mean of `x` over the processes, with gradient."""
    return x if world_size() == 1 else _Average.apply(x)  # type: ignore[no-untyped-call]


def mean(*views: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return E over the rows of all views and processes; `weights` (B,), of global mean one, apply to each view."""
    totals = [view.sum(0) if weights is None else weights @ view for view in views]
    return average(torch.stack(totals).sum(0) / sum(len(view) for view in views))


def l2_normalise(*views: Tensor, weights: Tensor | None = None) -> tuple[Tensor, ...]:
    """Scale every feature to E[psi_j^2] = 1, pooled over the views, without centring (L2 batch normalisation).

    The gradient flows through the statistics (Deng et al., NeuralEF, ICML 2022).
    """
    second_moment = mean(*(view.square() for view in views), weights=weights)
    scale = second_moment.clamp_min(VARIANCE_FLOOR).rsqrt()
    return tuple(view * scale for view in views)


def centre(*views: Tensor, weights: Tensor | None = None) -> tuple[Tensor, ...]:
    """Shift every feature to E[psi_j] = 0, pooled over the views, with gradient."""
    m = mean(*views, weights=weights)
    return tuple(view - m for view in views)


def standardise(*views: Tensor, weights: Tensor | None = None) -> tuple[Tensor, ...]:
    """Shift and scale every feature to mean 0 and variance 1, pooled over the views, with gradient."""
    return l2_normalise(*centre(*views, weights=weights), weights=weights)


def scale_rows(psi: Tensor, how: str, scale: float) -> Tensor:
    """Scale rows: "normalised" to norm sqrt(scale), "clipped" to at most that norm, or "raw" unchanged."""
    if how == "raw":
        return psi
    norm: Tensor = torch.linalg.vector_norm(psi, dim=1, keepdim=True).clamp_min(NORM_FLOOR)
    factor = norm.reciprocal() * math.sqrt(scale)
    return psi * (factor.clamp(max=1.0) if how == "clipped" else factor)


class GlobalBatch(NamedTuple):
    """Global batch with rows scaled by the root of their probability, so that moments are plain products.

    R = psi^T partner,  C = psi^T psi,  C+ = psi_plus^T psi_plus. For pairs `partner` is `psi_plus`; for a
    Gram block K it is K psi_plus / B', the kernel's integral operator applied to the features.
    """

    psi: Tensor
    partner: Tensor
    psi_plus: Tensor
    collision: Tensor | float
    """Probability that two independent draws are the same pair: 1/B or sum_b w_b^2 / B^2; 0 for a block."""

    def diagonal(self) -> Tensor:
        """Return R_jj for every feature j."""
        return (self.psi * self.partner).sum(0)

    def pooled(self) -> Tensor:
        """Return rows h with G = h^T h, the Gram matrix of the features over the rows of both views."""
        n, n_plus = len(self.psi), len(self.psi_plus)
        share = n / (n + n_plus)
        return torch.cat([self.psi * math.sqrt(share), self.psi_plus * math.sqrt(1 - share)])


def join(psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> GlobalBatch:
    """Join the normalised rows of all processes into the global batch.

    Example: `rows = join(*l2_normalise(psi, psi_plus), None, None)`, then `R = rows.psi.T @ rows.partner`.
    """
    if gram is not None:
        # Each process applies its own block; the global R is the average over processes.
        partner = gram @ psi_plus / len(psi_plus)
        psi, partner, psi_plus = gather(psi), gather(partner), gather(psi_plus)
        n, n_plus = len(psi), len(psi_plus)
        return GlobalBatch(psi / math.sqrt(n), partner / math.sqrt(n), psi_plus / math.sqrt(n_plus), collision=0.0)
    n = len(psi) * world_size()
    collision: Tensor | float = 1 / n
    if weights is not None:
        root = weights.sqrt()[:, None]
        psi, psi_plus = psi * root, psi_plus * root
        collision = average(weights.square().mean()) / n
    psi, psi_plus = gather(psi) / math.sqrt(n), gather(psi_plus) / math.sqrt(n)
    return GlobalBatch(psi, psi_plus, psi_plus, collision)


class _SquaredMoments(Function):
    """Implements `squared_moments`: the gradient has a closed form and is computed with each block of M."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, earlier: Tensor | None, later: Tensor | None, block: int) -> Tensor:
        needs_a, needs_b = ctx.needs_input_grad[:2]
        half_a = torch.zeros_like(a) if needs_a else None  # half of the gradient
        half_b = torch.empty_like(b) if needs_b else None
        norms = []
        rows, columns = (None if weights is None else weights.sqrt() for weights in (earlier, later))
        for start in range(0, b.shape[1], block):
            stop = min(start + block, b.shape[1])
            M = a[:, :stop].T @ b[:, start:stop]
            M.triu_(1 - start)  # the pairs i < j of these columns j
            # M is scaled in place: after the first scaling its squares are the terms of the sum, after the second it
            # is half of the derivative with respect to M.
            _scale(M, rows, columns, start)
            norms.append(torch.linalg.vector_norm(M))
            _scale(M, rows, columns, start)
            if half_b is not None:
                half_b[:, start:stop].addmm_(a[:, :stop], M, beta=0)
            if half_a is not None:
                half_a[:, :stop].addmm_(b[:, start:stop], M.T)
        ctx.save_for_backward(half_a, half_b)
        # Not summed in place: torch.compile of torch 2.11 drops the gradient of an output that was written to.
        return torch.stack(norms).square().sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradient = 2 * gradient
        gradients = (half if half is None else half * gradient for half in ctx.saved_tensors)
        return (*gradients, None, None, None)


def _scale(M: Tensor, rows: Tensor | None, columns: Tensor | None, start: int) -> None:
    """Scale rows and columns in place; M holds the columns from `start` on, and the rows before the last of them."""
    if rows is not None:
        M *= rows[: len(M), None]
    if columns is not None:
        M *= columns[start : len(M)]


def squared_moments(
    a: Tensor, b: Tensor, earlier: Tensor | None = None, later: Tensor | None = None, *, block: int = 1024
) -> Tensor:
    r"""Return sum_{i<j} earlier_i later_j M_ij^2 with M = a^T b, for two matrices of equal shape (n, k).

    Column blocks of M are formed, used and discarded: memory is k x block instead of the several k x k of autograd, and
    only the half i < j is multiplied. The gradient flows to whichever of `a` and `b` requires it, so a stop-gradient
    reads as in the equation: `squared_moments(psi.detach(), psi_plus)`. `earlier` and `later` (k,) are non-negative
    constants, one by default.
    """
    if b is a:
        b = a.view_as(a)  # torch.compile of torch 2.11 drops one of two gradients of the same tensor
    return _SquaredMoments.apply(a, b, earlier, later, block)  # type: ignore[no-any-return, no-untyped-call]


def harmonic(k: int, like: Tensor) -> Tensor:
    """Return weights w_j ~ 1/j, j = 1 ... k, that sum to one; features 10-99 weigh as much as 100-999."""
    w = 1 / torch.arange(1, k + 1, dtype=like.dtype, device=like.device)
    return w / w.sum()
