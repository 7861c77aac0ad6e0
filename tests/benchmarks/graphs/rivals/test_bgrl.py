from __future__ import annotations

import torch

from benchmarks.graphs.rivals.bgrl import EdgeDrop, Settings, embed, represent
from benchmarks.graphs.rivals.propagation import gcn_operator
from eigenmap.evaluation.probe import fit_ridge
from tests.benchmarks.graphs.rivals.graphs import noisy_features, random_graph, two_blocks


def test_dropping_nothing_is_the_gcn_operator_and_everything_is_the_identity():
    matrix = random_graph()
    drop = EdgeDrop(matrix, "cpu")
    torch.testing.assert_close(drop(0.0).to_dense(), gcn_operator(matrix).to_dense())
    torch.testing.assert_close(drop(1.0).to_dense(), torch.eye(40))


def test_a_dropped_graph_is_symmetric_and_normalised_by_its_own_degrees():
    torch.manual_seed(0)
    dense = EdgeDrop(random_graph(), "cpu")(0.5).to_dense()
    torch.testing.assert_close(dense, dense.T)
    left = (dense > 0).float()
    scale = left.sum(1).rsqrt()
    torch.testing.assert_close(dense, scale[:, None] * left * scale)
    assert 40 < left.sum() < (random_graph().nnz + 40)


def test_representations_hold_the_classes_better_than_features_do():
    matrix, y = two_blocks()
    x = noisy_features(y)
    how = Settings(hidden=32, dim=16, predictor=32, steps=60, warmup=5, learning_rate=5e-3)
    encoder, codes = embed((x,), matrix, how)
    torch.testing.assert_close(codes, represent(encoder, (x,), gcn_operator(matrix)))
    ours, raw = (fit_ridge(z[:40], y[:40]).accuracy(z[40:], y[40:]) for z in (codes, x))
    assert ours > raw + 0.05 and ours > 0.85
