"""Nested moments: the spectral contrastive loss of all prefixes at once, so that any cut is a good code."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from typing_extensions import override

from eigenmap.objectives.moments import centre, harmonic, join, scale_rows
from eigenmap.objectives.objective import Objective, number, switch
from eigenmap.objectives.spectral_contrastive import check_rows


class NestedMoments(Objective):
    r"""Spectral contrastive loss of the first d features, weighted and summed over d = 1 ... k.

        loss = - 2 sum_j s_j E[z_j z_plus_j] + sum_ij s_max(i,j) C_ij C+_ij

        C = E[z z^T],   C+ = E[z_plus z_plus^T],   s_j = sum_{d>=j} w_d,   w_d ~ 1/d, sum_d w_d = 1

    Entry (i, j) of the moments belongs to the prefixes d >= max(i, j), hence s_max(i,j). z is psi centred by
    the mean over both views, then its rows scaled: "normalised" to norm sqrt(scale), the form in our benchmarks
    (it changes the optimum, since a row of eigenfunctions has no fixed norm); "clipped" to at most that norm; or
    "raw", whose optimum is z_j = sqrt(mu_j) phi_j in the order of the eigenvalues mu_j > 0, unique up to signs.

    C_ij C+_ij averages z_b z_b^T and z_plus_b' z_plus_b'^T over all b, b' including b = b'; `unbiased=True`
    leaves the pairs b = b' out, as the spectral contrastive loss does. Rows of a Gram block are not paired,
    so nothing is left out. `centre=False` subtracts no mean, for kernels whose leading eigenfunctions have one.

    Example::

        objective = NestedMoments()
        psi = projector(encoder(torch.cat([x, x_plus])))
        loss = objective(*psi.chunk(2))
        loss.backward()
    """

    summary = "spectral contrastive loss of every prefix at once: any cut is a good code"
    ordered = True

    def __init__(
        self, rows: str = "normalised", scale: float = 10.0, unbiased: bool = False, centre: bool = True
    ) -> None:
        super().__init__()
        self.rows = check_rows(rows)
        self.scale = number("scale", scale, zero=False)
        self.unbiased = switch("unbiased", unbiased)
        self.centre = switch("centre", centre)

    @override
    def loss(self, psi: Tensor, psi_plus: Tensor, weights: Tensor | None, gram: Tensor | None) -> Tensor:
        views = centre(psi, psi_plus, weights=weights) if self.centre else (psi, psi_plus)
        z, z_plus = (scale_rows(v, self.rows, self.scale) for v in views)
        rows = join(z, z_plus, weights, gram)
        w = harmonic(psi.shape[1], psi)
        s = w.flip(0).cumsum(0).flip(0)
        repulsion = nested_product(rows.psi, rows.psi_plus, s)
        if self.unbiased and gram is None:
            # sum_b (z_b . z_plus_b)^2 of every prefix
            own = (rows.psi * rows.psi_plus).cumsum(1).square().sum(0)
            repulsion = (repulsion - (w * own).sum()) / (1 - rows.collision)
        return repulsion - 2 * (s * rows.diagonal()).sum()


class _NestedProduct(Function):
    """Implements `nested_product`: the gradient has a closed form and is computed with each block of C and C+."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, s: Tensor, block: int) -> Tensor:
        gradient_a, gradient_b = torch.empty_like(a), torch.empty_like(b)
        value = a.new_zeros(())
        for start in range(0, len(s), block):
            columns = slice(start, start + block)
            part, gradient_a[:, columns], gradient_b[:, columns] = _nested_columns(a, b, s, columns)
            value = value + part  # not in place, as in `squared_moments`
        ctx.save_for_backward(gradient_a, gradient_b)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradient_a, gradient_b = ctx.saved_tensors
        return gradient_a * gradient, gradient_b * gradient, None, None


def _nested_columns(a: Tensor, b: Tensor, s: Tensor, columns: slice) -> tuple[Tensor, Tensor, Tensor]:
    """Return some columns of the sum and its gradients with respect to these columns of a and b."""
    C, C_plus = a.T @ a[:, columns], b.T @ b[:, columns]
    S = torch.minimum(s[:, None], s[columns])  # s decreases: s_max(i,j) is the smaller of the two
    C_plus *= S
    value = torch.dot(C.flatten(), C_plus.flatten())
    C *= S
    return value, 2 * (a @ C_plus), 2 * (b @ C)


def nested_product(a: Tensor, b: Tensor, s: Tensor, *, block: int = 512) -> Tensor:
    """Sum s_max(i,j) (a^T a)_ij (b^T b)_ij over i, j for decreasing s, by blocks of columns: memory 3 k x block."""
    return _NestedProduct.apply(a, b, s, block)  # type: ignore[no-any-return, no-untyped-call]
