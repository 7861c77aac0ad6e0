"""Sparse tensors of torch, built from parts that are valid by construction, so that nothing is checked again."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

# Torch 2.11 and 2.12 warn of memory errors at the first sparse tensor, even if `check_invariants` is given.
warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled", category=UserWarning)


def sparse_coo(indices: Tensor, values: Tensor, shape: Sequence[int], *, coalesced: bool = False) -> Tensor:
    """Return a matrix by its entries; `coalesced` if they are sorted and none is listed twice."""
    known = coalesced or None
    return torch.sparse_coo_tensor(indices, values, tuple(shape), is_coalesced=known, check_invariants=False)


def sparse_csr(indptr: Tensor, indices: Tensor, values: Tensor, shape: Sequence[int]) -> Tensor:
    """Return a matrix by its rows."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
        return torch.sparse_csr_tensor(indptr, indices, values, tuple(shape), check_invariants=False)
