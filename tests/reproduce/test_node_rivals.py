from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenmap.data.graphs.adjacency import build_adjacency
from eigenmap.evaluation.nodes import random_split
from eigenmap.reproduce.node_rivals import (
    Classifier,
    Fitting,
    NodeClassifier,
    classify,
    graph_convolution,
    laplacian_codes,
    node2vec_codes,
    rival_accuracies,
)
from eigenmap.reproduce.table_6 import FITTINGS, generated_graph

CPU = torch.device("cpu")
SMALL = Classifier(width=16, batch_norm=True, epochs=60, check_every=5)


def dense_operator(n: int, edges: torch.Tensor) -> torch.Tensor:
    """D^-1/2 (A + I) D^-1/2 entry by entry."""
    adjacency = torch.eye(n)
    for i, j in edges.T.tolist():
        if i != j:
            adjacency[i, j] = adjacency[j, i] = 1
    scale = adjacency.sum(1).rsqrt()
    return scale[:, None] * adjacency * scale


@pytest.mark.parametrize("batch_norm", [False, True])
def test_gcn_and_its_gradients_are_those_of_dense_matrices(batch_norm: bool) -> None:
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])
    propagate = graph_convolution(build_adjacency(edges, 5), CPU)
    S = dense_operator(5, edges)
    x = torch.randn(5, 3)
    network = NodeClassifier(3, 2, Classifier(width=4, dropout=0.0, batch_norm=batch_norm)).train()
    found, wanted = network(x, propagate), network(x, lambda h: S @ h)
    assert torch.allclose(found, wanted, atol=1e-5)
    gradients = [torch.autograd.grad((out**2).sum(), list(network.parameters())) for out in (found, wanted)]
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-4)
    assert torch.equal(network.eval()(x, None), network(x, lambda h: h))


def test_the_papers_classifiers() -> None:
    how = FITTINGS["paper"]
    assert (how.gcn.width, how.gcn.dropout, how.gcn.epochs) == (256, 0.5, 300)
    assert (how.mlp.width, how.mlp.dropout, how.mlp.epochs) == (512, 0.0, 200)
    network = NodeClassifier(5, 3, how.mlp)
    assert [type(module) for module in network.norms] == [torch.nn.Identity] * 2
    assert [layer.out_features for layer in network.linears] == [512, 512, 3]


def test_laplacian_codes_are_eigenvectors() -> None:
    graph = generated_graph(nodes=40)
    walk = graph.walk()
    codes = laplacian_codes(walk, 3).double().numpy()
    adjacency = np.zeros((40, 40))
    adjacency[tuple(walk.edges().numpy())] = 1
    scale = 1 / np.sqrt(adjacency.sum(1))
    matrix = scale[:, None] * adjacency * scale
    values = np.sort(np.linalg.eigvalsh(matrix))[::-1][:3]
    assert matrix @ codes == pytest.approx(values * codes, abs=1e-5)
    assert (codes**2).mean(0) == pytest.approx(1, abs=1e-5)


def test_node2vec_tells_two_cliques_apart_and_leaves_isolated_nodes() -> None:
    inside = [(a, b) for a in range(8) for b in range(a)]
    edges = torch.tensor(inside + [(a + 8, b + 8) for a, b in inside] + [(0, 8)]).T
    how = Fitting(dims=8, length=10, walks=40, window=3, learning_rate=0.05)
    codes = torch.nn.functional.normalize(node2vec_codes(build_adjacency(edges, 17), how, CPU), dim=1)
    alike = codes @ codes.T
    assert alike[1:8, 1:8].mean() > alike[1:8, 9:16].mean() + 0.5
    assert codes[16].isfinite().all()


def test_rivals_learn_and_repeat() -> None:
    graph = generated_graph()
    assert graph.y is not None and isinstance(graph.x, torch.Tensor)
    propagate = graph_convolution(graph.walk(), CPU)
    splits = [random_split(graph.y, seed, 0.3, 0.2) for seed in (0, 1)]
    found = {
        name: rival_accuracies(graph.x, graph.y, splits, 1.0, s, SMALL)
        for name, s in (("mlp", None), ("gcn", propagate))
    }
    assert found["gcn"][0] > found["mlp"][0] > 0.4 and found["gcn"][0] > 0.7
    assert found["mlp"] == rival_accuracies(graph.x, graph.y, splits, 1.0, None, SMALL)
    assert 0 <= classify(graph.x, graph.y, splits[0].train[:1], splits[0], None, SMALL, 0) <= 1  # one label
