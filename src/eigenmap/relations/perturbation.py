r"""Perturbed Gram matrices with the same eigenfunctions but no small eigenvalues.

The penalties of NeuralEF miss eigenfunctions with small eigenvalues. Three perturbations of the kernel keep the
eigenfunctions and their order and change the eigenvalues mu (of K / n, for n points of equal weight):

- the shift, mu -> (1 - c) mu + c: needs no matrix, it is an option of the objective (`NeuralEF(shift=c)`);
- `lifted`, mu -> mu / (mu + tau): everything well above tau becomes nearly 1;
- `truncated`, mu -> mu where mu >= floor, else 0: nothing small is left.

The last two factorise the full matrix in n^3 operations, so they are for precomputed matrices of a few thousand points.

    blocks = KernelBlocks(x, lifted(K, tau=1e-4))
"""

from __future__ import annotations

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError


def lifted(gram: Tensor, tau: float) -> Tensor:
    """Return the matrix with eigenvalues mu / (mu + tau) instead of mu, in float64.

    The map increases for mu > -tau, so tau must exceed the magnitude of the most negative eigenvalue.

    Example:
        >>> K = torch.diag(torch.tensor([3.0, 0.03, 0.0]))
        >>> lifted(K, tau=0.01).diagonal() / 3
        tensor([0.9901, 0.5000, 0.0000], dtype=torch.float64)

    """
    n, K = len(gram), _square(gram)
    if not tau > 0:
        raise EigenmapError(f"tau must be above 0, not {tau!r}.")
    L, failed = torch.linalg.cholesky_ex(K / n + tau * torch.eye(n).to(K))
    if int(failed):
        raise EigenmapError(
            f"tau = {tau:g} is too small: the matrix has an eigenvalue below -tau, and the order would be lost."
        )
    # K and (K / n + tau)^-1 commute; the product is symmetric up to rounding, which is removed.
    solved = torch.cholesky_solve(K, L)
    return (solved + solved.T) / 2


def truncated(gram: Tensor, floor: float) -> Tensor:
    """Return the matrix without its eigenvalues mu < floor, including negative ones, in float64.

    Example:
        >>> K = torch.diag(torch.tensor([3.0, 0.03, -0.3]))
        >>> truncated(K, floor=0.1).diagonal()
        tensor([3., 0., 0.], dtype=torch.float64)

    """
    n, K = len(gram), _square(gram)
    if not floor > 0:
        raise EigenmapError(f"floor must be above 0, not {floor!r}.")
    mu, vectors = torch.linalg.eigh(K / n)
    kept = vectors[:, mu >= floor]
    if kept.shape[1] == 0:
        raise EigenmapError(f"No eigenvalue reaches {floor:g}; the largest is {float(mu[-1]):.3g}.")
    without: Tensor = n * (kept * mu[mu >= floor]) @ kept.T
    return without


def _square(gram: Tensor) -> Tensor:
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
        raise EigenmapError(f"A Gram matrix must be square, not of shape {tuple(gram.shape)}.")
    return gram.double()
