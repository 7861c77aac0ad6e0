"""Slow references: float64 scalars and loops from the equations, with gradients by autograd."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

Reference = Callable[[Tensor, Tensor, Tensor | None], Tensor]
KERNELS = ("pairs", "weights", "block", "sparse")
LEARNING = ("swav", "moco", "byol", "simsiam", "scl-taught")
NO_GRAM = ("barlow-twins", "vicreg", "simclr", "info-nce", "matryoshka-info-nce", "nt-logistic", *LEARNING)


def example(kernel: str, B: int = 6, k: int = 4, seed: int = 0) -> tuple[Tensor, Tensor, Tensor | None]:
    """Raw codes that are far from normalised, and a kernel of the named kind; blocks are B x (B + 1)."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    columns = B + 1 if kernel in ("block", "sparse") else B
    psi = 2 * draw(B, k) + draw(k)
    psi_plus = 1.5 * draw(columns, k) + draw(k)
    psi_plus[:B] += psi
    if kernel == "pairs":
        return psi, psi_plus, None
    if kernel == "weights":
        return psi, psi_plus, 3 * torch.rand(B, generator=generator, dtype=torch.float64)
    block = draw(B, columns)
    if kernel == "sparse":
        block = (block * (block > 0)).to_sparse()
    return psi, psi_plus, block


def probabilities(rows: int, kernel: Tensor | None) -> list[float]:
    """The probability of each pair, or of each row of a Gram block."""
    if kernel is None or kernel.ndim == 2:
        return [1 / rows] * rows
    total = float(kernel.sum())
    return [float(w) / total for w in kernel]


def expectation(psi: Tensor, psi_plus: Tensor, kernel: Tensor | None) -> list[list[Tensor]]:
    """R_ij = E[psi_i psi_plus_j], pair by pair."""
    B, k = psi.shape
    p = probabilities(B, kernel)
    R = [[torch.zeros((), dtype=torch.float64) for _ in range(k)] for _ in range(k)]
    dense = None if kernel is None or kernel.ndim == 1 else kernel.to_dense()
    for i in range(k):
        for j in range(k):
            for b in range(B):
                if dense is None:
                    R[i][j] = R[i][j] + p[b] * psi[b, i] * psi_plus[b, j]
                    continue
                for c in range(len(psi_plus)):
                    R[i][j] = R[i][j] + dense[b, c] * psi[b, i] * psi_plus[c, j] / (B * len(psi_plus))
    return R


def transposed(kernel: Tensor | None) -> Tensor | None:
    """Kernel with the two views exchanged."""
    return kernel if kernel is None or kernel.ndim == 1 else kernel.to_dense().T


def normalised(
    psi: Tensor, psi_plus: Tensor, kernel: Tensor | None, *, centre: bool, scale: bool = True
) -> tuple[Tensor, Tensor]:
    """Features with unit second moment, or with mean zero and unit variance, over the rows of both views."""
    rows, p = pooled_rows(psi, psi_plus, kernel)
    features = []
    for j in range(psi.shape[1]):
        column = [row[j] for row in rows]
        m = sum(q * x for q, x in zip(p, column, strict=True)) if centre else 0.0
        column = [x - m for x in column]
        if scale:
            second = sum(q * x * x for q, x in zip(p, column, strict=True))
            column = [x / second.sqrt() for x in column]
        features.append(torch.stack(column))
    both = torch.stack(features, dim=1)
    return both[: len(psi)], both[len(psi) :]


def pooled_rows(psi: Tensor, psi_plus: Tensor, kernel: Tensor | None) -> tuple[list[Tensor], list[float]]:
    """All rows of both views and their probabilities."""
    n, n_plus = len(psi), len(psi_plus)
    p = [q * n / (n + n_plus) for q in probabilities(n, kernel)]
    p_plus = [q * n_plus / (n + n_plus) for q in probabilities(n_plus, kernel)]
    return [*psi, *psi_plus], p + p_plus


def normalised_rows(psi: Tensor, how: str, scale: float) -> Tensor:
    """Rows of norm sqrt(scale), or of at most that norm, or as they are."""
    rows = []
    for row in psi:
        norm = sum(x * x for x in row).sqrt()
        long = how == "normalised" or (how == "clipped" and float(norm.detach()) > math.sqrt(scale))
        rows.append(row / norm * math.sqrt(scale) if long else row)
    return torch.stack(rows)


def assert_matches(
    objective: nn.Module, reference: Reference, kernel: str, *, B: int = 6, k: int = 4, seed: int = 0
) -> None:
    """Assert that the objective has the value and the gradients of its reference."""
    psi, psi_plus, K = example(kernel, B, k, seed)
    results = []
    for loss_of in (objective, reference):
        x, y = psi.clone().requires_grad_(), psi_plus.clone().requires_grad_()
        loss = loss_of(x, y, K)
        results.append((loss.detach(), *torch.autograd.grad(loss, (x, y))))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
