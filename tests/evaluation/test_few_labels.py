from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from eigenmap.evaluation.few_labels import (
    Labelled,
    SpreadProbe,
    fit_probe_few,
    neighbour_graph,
    prototypes,
    spread,
)
from eigenmap.evaluation.nodes import NodeSplit, evaluate_nodes, fit_probe_logistic, random_split


def clusters(n: int = 240, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Three long clusters: a labelled row says little of the far end of its own."""
    rng: Any = np.random.default_rng(seed)
    y = np.arange(n) % 3
    along = rng.uniform(-1, 1, size=n)
    directions = np.eye(6)[:3][y] + along[:, None] * np.eye(6)[3:][y] * 0.8
    x = directions + 0.12 * rng.normal(size=(n, 6))
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)


def test_prototypes_are_those_of_a_slow_loop() -> None:
    x, y = clusters(60)
    train = Labelled(x[:9], y[:9])
    pool = F.normalize(x, dim=1)
    found = list(prototypes(train, pool))
    rows = F.normalize(train.x, dim=1).double().numpy()
    sums = np.stack([rows[(y[:9] == c).numpy()].sum(0) for c in range(3)])
    centres = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    np.testing.assert_allclose(found[0].weight.numpy(), centres, atol=1e-6)
    for _ in range(10):  # tau = 0.05, the first of the refined ones
        new = sums.copy()
        for row in pool.double().numpy():
            p = np.exp(centres @ row / 0.05 - (centres @ row / 0.05).max())
            new += np.outer(p / p.sum(), row)
        centres = new / np.linalg.norm(new, axis=1, keepdims=True)
    np.testing.assert_allclose(found[1].weight.numpy(), centres, atol=1e-4)


def test_the_graph_of_neighbours_is_the_dense_one() -> None:
    rows = F.normalize(clusters(40)[0], dim=1)
    cosine = (rows @ rows.T).double().numpy()
    W = np.zeros((40, 40))
    for i in range(40):
        others = [j for j in np.argsort(-cosine[i]) if j != i][:5]
        W[i, others] += np.maximum(cosine[i, others], 0) / 2
        W[others, i] += np.maximum(cosine[i, others], 0) / 2
    d = W.sum(1)
    S = W / np.sqrt(d[:, None] * d[None, :])
    np.testing.assert_allclose(neighbour_graph(rows, 5).to_dense().numpy(), S, atol=1e-6)


def test_spreading_is_the_closed_form() -> None:
    """F = (1 - a) (I - a S)^-1 Y, up to a factor per row."""
    x, y = clusters(60)
    train = Labelled(x[:6], y[:6])
    pool = F.normalize(x[6:], dim=1)
    probe = next(iter(spread(train, pool)))
    rows = torch.cat([F.normalize(train.x, dim=1), pool])
    S = neighbour_graph(rows, 5).to_dense().double().numpy()
    Y = np.zeros((60, 3))
    Y[np.arange(6), y[:6]] = 0.5
    scores = np.linalg.solve(np.eye(60) - 0.5 * S, 0.5 * Y)
    np.testing.assert_allclose(probe.scores.numpy(), scores / scores.sum(1, keepdims=True), atol=1e-4)
    assert isinstance(probe, SpreadProbe) and probe.accuracy(x[6:], y[6:]) > 0.8


def test_few_labels_are_helped_by_codes_without_labels() -> None:
    x, y = clusters(600)
    train, validation, test = torch.arange(3), torch.arange(3, 63), torch.arange(63, 600)
    labelled = Labelled(x[train], y[train])
    held = Labelled(x[validation], y[validation])
    plain = fit_probe_logistic(labelled, held)
    few = fit_probe_few(labelled, held, x, plain)
    assert few.accuracy(*held) >= plain.accuracy(*held)
    assert few.accuracy(x[test], y[test]) > plain.accuracy(x[test], y[test])


def test_a_class_without_a_training_node_is_never_predicted() -> None:
    x, y = clusters(60)
    train = Labelled(x[:9][y[:9] != 1], y[:9][y[:9] != 1])
    for probe in (*prototypes(train, F.normalize(x, dim=1)), *spread(train, F.normalize(x, dim=1))):
        assert 1 not in probe.predict(x).tolist()


def test_it_is_a_probe_of_evaluate_nodes() -> None:
    x, y = clusters(300)
    split = random_split(y, 0)
    rows = evaluate_nodes(x, y, [split], shares=(0.2, 1.0), dims=[3, 6], probe="few")
    plain = evaluate_nodes(x, y, [split], shares=(0.2, 1.0), dims=[3, 6])
    assert [row["probe"] for row in rows] == ["few"] * 4
    assert all(few["validation"] >= row["validation"] for few, row in zip(rows, plain, strict=True))
    with pytest.raises(Exception, match="probe must be one of ridge, logistic, paper, few"):
        evaluate_nodes(x, y, [NodeSplit(*split)], probe="many")
