"""Adjacency matrices of undirected graphs as sparse tensors, and their products with node features."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from scipy import sparse
from torch import Tensor


def adjacency(edge_index: Tensor, n: int) -> sparse.csr_matrix:
    """The symmetric 0/1 matrix of the graph: both directions, duplicates once, no self-loops."""
    first, second = edge_index.cpu().numpy()
    first, second = np.concatenate([first, second]), np.concatenate([second, first])
    off = first != second
    matrix = sparse.csr_matrix((np.ones(int(off.sum())), (first[off], second[off])), shape=(n, n))
    matrix.data[:] = 1.0
    return matrix


def gcn_operator(matrix: sparse.csr_matrix, device: torch.device | str = "cpu") -> Tensor:
    """D^-1/2 (A + I) D^-1/2 with D the degrees of A + I (Kipf and Welling, 2017)."""
    looped = matrix + sparse.eye(matrix.shape[0], format="csr")
    scale = sparse.diags(1 / np.sqrt(np.asarray(looped.sum(1)).ravel()))
    return as_sparse(scale @ looped @ scale, device)


def as_sparse(matrix: sparse.csr_matrix, device: torch.device | str = "cpu") -> Tensor:
    """A float32 CSR tensor."""
    matrix = matrix.tocsr()
    parts = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data.astype(np.float32)
    return csr_tensor(*(torch.from_numpy(part).to(device) for part in parts), matrix.shape)


def csr_tensor(indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return a CSR tensor of valid parts, without checking them."""
    with warnings.catch_warnings():
        # torch warns that its CSR support is in beta; the parts used here are tested against dense products.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support", category=UserWarning)
        return torch.sparse_csr_tensor(indptr, indices, values, size=shape, check_invariants=False)


class Propagate(torch.autograd.Function):
    """S h for a symmetric sparse S: the gradient is S g, without a transpose of S."""

    @staticmethod
    def forward(ctx, operator: Tensor, h: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.operator = operator
        return operator @ h

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[None, Tensor]:  # type: ignore[no-untyped-def]
        return None, ctx.operator @ gradient.contiguous()


def propagate(operator: Tensor, h: Tensor) -> Tensor:
    """S h, differentiable in h; S must be symmetric."""
    return Propagate.apply(operator, h)
