from __future__ import annotations

import numpy as np
import torch

from benchmarks.graphs.rivals.gcn import (
    GCN,
    Neighbourhoods,
    Settings,
    block_tensor,
    fit,
    fit_sampled,
    sampled_scores,
    scores,
)
from benchmarks.graphs.rivals.mlp import Fitting, predict
from benchmarks.graphs.rivals.mlp import fit as fit_mlp
from benchmarks.graphs.rivals.propagation import gcn_operator
from tests.benchmarks.graphs.rivals.graphs import noisy_features, random_graph, two_blocks


def test_forward_is_the_dense_formula():
    """Two layers by hand in float64, with the BN of evaluation mode."""
    matrix, how = random_graph(), Settings(hidden=8)
    torch.manual_seed(0)
    net, x = GCN([5], 3, how).eval(), torch.randn(40, 5)
    norm = net.norms[0]
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2.0)
    S = gcn_operator(matrix).to_dense().double()
    first, second = net.linears
    h = S @ (x.double() @ first.weights[0].double() + first.bias)
    h = (h - norm.running_mean) / (norm.running_var.double() + norm.eps).sqrt()
    expected = S @ (h.relu() @ second.weight.T.double() + second.bias)
    torch.testing.assert_close(scores(net, (x,), gcn_operator(matrix)), expected.float(), rtol=1e-4, atol=1e-5)


def test_whole_neighbourhoods_give_the_scores_of_the_whole_graph():
    matrix = random_graph()
    torch.manual_seed(0)
    net, x = GCN([5], 3, Settings(hidden=8)).eval(), (torch.randn(40, 5),)
    nodes = torch.tensor([7, 3, 21])
    with torch.no_grad():
        sampled = sampled_scores(net, x, Neighbourhoods(matrix, fanout=100), nodes)
    torch.testing.assert_close(sampled, scores(net, x, gcn_operator(matrix))[nodes])


def test_sampled_neighbourhoods_are_right_on_average():
    matrix = random_graph(density=0.4)
    sampler, nodes = Neighbourhoods(matrix, fanout=3), np.array([0, 9])
    h = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    draws = []
    for _ in range(4000):
        inputs, (block,) = sampler.blocks(nodes, 1)
        draws.append(block_tensor(block, "cpu") @ h[torch.from_numpy(inputs)])
    found, spread = torch.stack(draws).mean(0), torch.stack(draws).std(0)
    expected = (gcn_operator(matrix) @ h)[torch.from_numpy(nodes)]
    assert ((found - expected).abs() < 4 * spread / 4000**0.5 + 1e-6).all()
    assert block.getnnz(1).tolist() == [4, 4] or block.getnnz(1).max() <= 4


def test_the_graph_helps_where_features_are_noisy():
    matrix, y = two_blocks()
    x, train, validation = (noisy_features(y),), torch.arange(20), torch.arange(20, 60)
    how, operator = Settings(hidden=16, epochs=40), gcn_operator(matrix)
    net, best = fit(x, operator, y, train, validation, n_classes=2, how=how)
    found = scores(net, x, operator)
    assert best == (found[validation].argmax(1) == y[validation]).double().mean()
    mlp, _ = fit_mlp(x, y, train, validation, n_classes=2, how=Fitting(width=32, epochs=40))
    test = slice(60, None)
    gcn_right = (found.argmax(1) == y)[test].double().mean()
    assert gcn_right > (predict(mlp, x, torch.arange(200)).argmax(1) == y)[test].double().mean() + 0.05
    sampled, _ = fit_sampled(
        x, matrix, operator, y, train, validation, n_classes=2, how=how, fanout=5, batch_size=10, epochs=20
    )
    assert (scores(sampled, x, operator).argmax(1) == y)[test].double().mean() > gcn_right - 0.05
