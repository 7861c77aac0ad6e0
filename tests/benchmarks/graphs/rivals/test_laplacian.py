from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.graphs.rivals import laplacian
from benchmarks.graphs.rivals.propagation import adjacency
from tests.benchmarks.graphs.rivals.graphs import random_graph, two_blocks


@pytest.mark.parametrize("arpack_nodes", [1000, 0], ids=["arpack", "lobpcg"])
def test_coordinates_are_those_of_the_dense_solver(monkeypatch, arpack_nodes):
    monkeypatch.setattr(laplacian, "ARPACK_NODES", arpack_nodes)
    matrix = random_graph(60)
    operator = laplacian.normalised(matrix)
    values, vectors = np.linalg.eigh(operator.toarray())
    found, basis = laplacian.leading(operator, 5, tolerance=1e-10)
    np.testing.assert_allclose(found, values[::-1][:5], atol=1e-7)
    np.testing.assert_allclose(np.abs((basis * vectors[:, ::-1][:, :5]).sum(0)), 1, atol=1e-5)


def test_coordinates_are_orthonormal_in_the_degree_measure_and_leave_the_constant_out():
    matrix = random_graph(60)
    f = laplacian.eigenmap(matrix, 6, tolerance=1e-10).double().numpy()
    pi = np.asarray(matrix.sum(1)).ravel() / matrix.sum()
    np.testing.assert_allclose(f.T @ (pi[:, None] * f), np.eye(6), atol=1e-4)
    np.testing.assert_allclose(pi @ f, 0, atol=1e-4)


def test_communities_are_the_first_coordinate_and_isolated_nodes_are_zero():
    matrix, y = two_blocks()
    matrix.resize(201, 201)
    f = laplacian.eigenmap(matrix, 2)
    side = (f[:200, 0] > 0).long()
    assert max((side == y).double().mean(), (side != y).double().mean()) > 0.98
    assert f[200].tolist() == [0.0, 0.0]


def test_no_more_coordinates_than_the_graph_has():
    ring = adjacency(torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]), 5)
    assert laplacian.eigenmap(ring, 10).shape == (5, 2)
