from __future__ import annotations

import subprocess
import sys

import torch

from eigenmap.core.sparse import sparse_coo, sparse_csr

DENSE = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 1.0]])


def test_the_parts_of_a_matrix_make_the_matrix() -> None:
    values, indices = torch.tensor([2.0, 3.0, 1.0]), torch.tensor([[0, 1, 1], [1, 0, 2]])
    matrix = sparse_coo(indices, values, (2, 3), coalesced=True)
    assert matrix.is_coalesced() and torch.equal(matrix.to_dense(), DENSE)
    twice = sparse_coo(indices.repeat(1, 2), values.repeat(2) / 2, DENSE.shape)
    assert not twice.is_coalesced() and torch.equal(twice.coalesce().to_dense(), DENSE)
    assert torch.equal(sparse_csr(torch.tensor([0, 1, 3]), indices[1], values, (2, 3)).to_dense(), DENSE)


def test_nothing_is_said_of_checks_that_are_not_needed() -> None:
    """Torch 2.11 and 2.12 warn of memory errors at the first sparse tensor, whatever `check_invariants` says."""
    code = (
        "import warnings\nfrom eigenmap.core.sparse import sparse_coo\n"
        "warnings.warn('Sparse invariant checks are implicitly disabled. Memory errors (e.g. SEGFAULT) will occur')\n"
        "warnings.warn('something else')"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "implicitly" not in ran.stderr and "something else" in ran.stderr
