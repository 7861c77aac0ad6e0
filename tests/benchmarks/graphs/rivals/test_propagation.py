from __future__ import annotations

import numpy as np
import torch

from benchmarks.graphs.rivals.propagation import adjacency, gcn_operator, propagate
from tests.benchmarks.graphs.rivals.graphs import random_graph


def test_adjacency_is_symmetric_without_loops_or_duplicates():
    edges = torch.tensor([[0, 1, 0, 2, 2], [1, 0, 1, 2, 0]])
    expected = [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    np.testing.assert_array_equal(adjacency(edges, 3).toarray(), expected)


def test_gcn_propagation_is_the_dense_one():
    matrix = random_graph()
    dense = torch.from_numpy(matrix.toarray()) + torch.eye(40, dtype=torch.float64)
    scale = dense.sum(1).rsqrt()
    dense = scale[:, None] * dense * scale
    h = torch.randn(40, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(gcn_operator(matrix) @ h.float(), (dense @ h).float())


def test_the_gradient_is_that_of_the_dense_product():
    matrix = random_graph()
    operator = gcn_operator(matrix)
    h = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)).requires_grad_(True)
    (propagate(operator, h) ** 2).sum().backward()
    ours, h.grad = h.grad, None
    ((operator.to_dense() @ h) ** 2).sum().backward()
    torch.testing.assert_close(ours, h.grad)
