from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

from eigenmap.networks import SparseRows


def matrix(rows: int = 7, columns: int = 5, seed: int = 0) -> scipy.sparse.csr_matrix:
    return scipy.sparse.random(rows, columns, density=0.4, random_state=np.random.default_rng(seed), format="csr")


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil"])
def test_rows_of_a_scipy_matrix(form: str) -> None:
    m = matrix()
    rows = SparseRows.of(m.asformat(form))
    assert rows.shape == (7, 5) and len(rows) == 7
    np.testing.assert_allclose(rows.dense().numpy(), m.toarray().astype(np.float32))


def test_rows_of_a_torch_tensor() -> None:
    m = torch.from_numpy(matrix().toarray())
    twice = torch.cat([m.to_sparse()._indices()] * 2, 1), torch.cat([m.to_sparse()._values() / 2] * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns that its CSR tensors are experimental
        csr = m.to_sparse_csr()
    for tensor in (m.to_sparse(), torch.sparse_coo_tensor(*twice, m.shape, check_invariants=False), csr):
        torch.testing.assert_close(SparseRows.of_tensor(tensor).dense(), m)


@given(st.lists(st.integers(0, 6), max_size=12))
def test_rows_by_number_are_those_of_the_dense_matrix(numbers: list[int]) -> None:
    m = matrix()
    chosen = SparseRows.of(m)[torch.tensor(numbers, dtype=torch.int64)]
    assert chosen.shape == (len(numbers), 5)
    np.testing.assert_allclose(chosen.dense().numpy(), m.toarray()[numbers].astype(np.float32))


@pytest.mark.parametrize("part", [slice(2, 5), slice(None), slice(5, 100), slice(3, 3), slice(None, None, 2)])
def test_slices(part: slice) -> None:
    m = matrix()
    np.testing.assert_allclose(SparseRows.of(m)[part].dense().numpy(), m.toarray()[part].astype(np.float32))


def test_values_that_are_all_one_need_not_be_stored() -> None:
    rows = SparseRows(torch.tensor([0, 2, 2, 3]), torch.tensor([0, 3, 1], dtype=torch.int32), None, width=4)
    expected = torch.tensor([[1.0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
    torch.testing.assert_close(rows.dense(), expected)
    torch.testing.assert_close(rows[torch.tensor([2, 0])].to("cpu").dense(), expected[[2, 0]])
    assert rows.nbytes == 4 * 8 + 3 * 4
