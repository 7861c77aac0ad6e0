"""The two ways to classify nodes with GCN agree with each other and with dense float64 products."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenmap.reproduce.inference_cost import (
    GCN,
    PRODUCTS,
    SIZES,
    Size,
    inference_cost,
    normalised,
    random_neighbours,
)

SMALL = Size(40, 90, features=6, classes=3, width=8, blocks=1)
CPU = torch.device("cpu")


def test_the_operator_is_the_normalised_adjacency() -> None:
    edges = torch.tensor([[0, 1, 1, 3, 2], [1, 0, 2, 3, 1]])  # one repeated, one mirrored, a loop, node 4 alone
    A = np.zeros((5, 5))
    for a, b in ((0, 1), (1, 2)):
        A[a, b] = A[b, a] = 1
    A += np.eye(5)
    D = np.diag(A.sum(1) ** -0.5)
    np.testing.assert_allclose(normalised(edges, 5).matrix().to_dense().numpy(), D @ A @ D, rtol=1e-6)


def test_single_nodes_have_the_scores_of_the_whole_graph() -> None:
    neighbours = random_neighbours(SMALL, CPU)
    torch.manual_seed(0)
    x, gcn = torch.randn(40, 6), GCN(6, 3, width=5)
    S, h = neighbours.matrix().to_dense().double().numpy(), x.double().numpy()
    for number, layer in enumerate(gcn.layers):
        h = S @ (h @ layer.weight.double().detach().numpy().T)
        h = np.maximum(h, 0) if number < 2 else h
    with torch.no_grad():
        np.testing.assert_allclose(gcn(x, neighbours.matrix()).numpy(), h, atol=1e-5)
        nodes = torch.tensor([7, 0, 31])
        np.testing.assert_allclose(gcn.of_nodes(x, neighbours, nodes).numpy(), h[nodes], atol=1e-5)


def test_both_methods_are_timed_on_all_nodes_and_on_one() -> None:
    rows = inference_cost(SMALL, CPU, random_neighbours(SMALL, CPU), torch.randn(40, 6), repeat=1)
    assert [row["method"].split(",")[0] for row in rows] == ["ours", "GCN"]
    for row in rows:
        assert row["per_node_s"] == pytest.approx(row["whole_set_s"] / 40) and row["one_node_s"] > 0


def test_sizes_are_those_of_the_paper() -> None:
    assert SIZES["small"] == PRODUCTS and (PRODUCTS.nodes, PRODUCTS.edges) == (2_449_029, 61_859_140)
    assert (PRODUCTS.width, PRODUCTS.blocks, PRODUCTS.features, PRODUCTS.classes) == (2048, 5, 100, 47)
