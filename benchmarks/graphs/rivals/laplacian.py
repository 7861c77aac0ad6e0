"""Laplacian eigenmap (Belkin and Niyogi, 2003): the leading eigenvectors of D^-1/2 A D^-1/2, by a sparse solver.

    A_norm u = mu u,   largest mu first,   coordinates f = sqrt(vol) D^-1/2 u

so that sum_i pi_i f_j(i)^2 = 1 in the degree measure pi, and the constant is the first one (dropped). Isolated nodes
have no measure and are all zero. A node that was not in the graph has no coordinates: this rival is transductive.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import eigsh, lobpcg
from torch import Tensor

ARPACK_NODES = 200_000
"""Number of nodes above which LOBPCG is used: keeping ARPACK's Lanczos basis orthogonal becomes costly."""


def eigenmap(matrix: sparse.csr_matrix, n_components: int, *, seed: int = 0, tolerance: float = 1e-4) -> Tensor:
    """(n, n_components) coordinates, float32, in the order of their eigenvalues."""
    degree = np.asarray(matrix.sum(1)).ravel()
    inside = np.flatnonzero(degree > 0)
    _, vectors = leading(normalised(matrix[inside][:, inside]), n_components + 1, seed=seed, tolerance=tolerance)
    coordinates = vectors * np.sqrt(degree.sum() / degree[inside])[:, None]
    out = torch.zeros(matrix.shape[0], coordinates.shape[1] - 1)
    out[torch.from_numpy(inside)] = torch.from_numpy(coordinates[:, 1:].astype(np.float32))
    return out


def normalised(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """D^-1/2 A D^-1/2 of a graph without isolated nodes."""
    scale = sparse.diags(1 / np.sqrt(np.asarray(matrix.sum(1)).ravel()))
    return (scale @ matrix @ scale).tocsr()


def leading(
    operator: sparse.csr_matrix, k: int, *, seed: int = 0, tolerance: float = 1e-4
) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues (signed), descending, and their eigenvectors."""
    n = operator.shape[0]
    k = min(k, n - 2)
    random = np.random.default_rng(seed)
    # (1 + A) / 2 has the same eigenvectors and a spectrum in [0, 1], which suits both solvers better.
    lazy = (operator + sparse.eye(n)) / 2
    if n <= ARPACK_NODES:
        values, vectors = eigsh(lazy, k=k, which="LA", tol=tolerance, v0=random.standard_normal(n))
    else:
        values, vectors = lobpcg(lazy, random.standard_normal((n, k)), largest=True, tol=tolerance, maxiter=200)
    order = np.argsort(values)[::-1]
    return 2 * values[order] - 1, vectors[:, order]
