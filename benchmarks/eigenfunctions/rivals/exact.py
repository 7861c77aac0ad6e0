"""Methods that keep the points instead of training a network: Nystroem and scikit-learn's KernelPCA."""

from __future__ import annotations

from collections.abc import Callable

import torch
from sklearn.decomposition import KernelPCA
from torch import Tensor

Functions = Callable[[Tensor], Tensor]
"""New points, seen as the kernel between them and the kept points (m, n) -> (m, k)."""


def nystroem(gram: Tensor, k: int) -> tuple[Tensor, Functions]:
    """The k largest eigenvalues of K / n, signed, and the eigenvectors extended to new points.

        phi_j(x) = sum_b kappa(x, x_b) u_jb / (n mu_j)

    Exact for the n points; costs n^3. Williams, Seeger: Using the Nystroem Method to Speed Up Kernel Machines, 2001.
    """
    n = len(gram)
    mu, vectors = torch.linalg.eigh(gram / n)
    mu, vectors = mu.flip(0)[:k], vectors.flip(1)[:, :k] * n**0.5
    return mu, lambda cross: cross @ vectors / (n * mu)


def kernel_pca(gram: Tensor, k: int) -> tuple[Tensor, Functions]:
    """Eigenfunctions of the *centred* kernel, by scikit-learn's KernelPCA on a precomputed matrix."""
    n = len(gram)
    model = KernelPCA(k, kernel="precomputed", eigen_solver="arpack", random_state=0).fit(gram.numpy())
    mu = torch.from_numpy(model.eigenvalues_) / n
    return mu, lambda cross: torch.from_numpy(model.transform(cross.numpy()))
