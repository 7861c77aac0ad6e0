from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from eigenmap.core.errors import EigenmapError
from eigenmap.evaluation.classes import evaluate_classes, fit_standardised_sgd
from eigenmap.evaluation.neighbours import knn_accuracy
from eigenmap.evaluation.probe import fit_ridge, fit_sgd, fractions


def clusters(n: int, k: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Three classes that differ in the first two features, noise in the others."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 3
    x = torch.randn(n, k, generator=generator)
    x[:, :2] += 3 * torch.tensor([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]])[y]
    return x, y


@pytest.mark.parametrize("kind", [Tensor.numpy, Tensor.clone])
def test_rows_are_those_of_the_classifiers(kind: Any) -> None:
    (x, y), (x_test, y_test) = clusters(60), clusters(30, seed=1)
    rows = evaluate_classes(kind(x), y, kind(x_test), y_test, dims=[1, 6], shares=(0.1, 1.0), n_neighbours=5)
    assert [(row["dim"], row["share"], row["labels"]) for row in rows] == [
        (1, 0.1, 6),
        (6, 0.1, 6),
        (1, 1, 60),
        (6, 1, 60),
    ]
    for row in rows:
        few = fractions(y, (0.1, 1.0))[row["share"]]
        known, asked = x[few, : row["dim"]], x_test[:, : row["dim"]]
        assert row["knn"] == knn_accuracy(asked, y_test, known, y[few], n_neighbours=5)
        assert row["linear"] == fit_ridge(known, y[few]).accuracy(asked, y_test)
    assert rows[-1]["linear"] > 0.95 > rows[-2]["linear"]


@pytest.mark.parametrize("probe", ["ridge", "sgd"])
def test_large_gaps_between_class_numbers_change_nothing(probe: Any) -> None:
    (x, y), (x_test, y_test) = clusters(60), clusters(30, seed=1)
    given = {"dims": [2], "shares": (1.0,), "probe": probe}
    rows = evaluate_classes(x, y * 10**12, x_test, y_test * 10**12, **given)
    assert rows == evaluate_classes(x, y, x_test, y_test, **given)


def test_default_lengths_double() -> None:
    x, y = clusters(30)
    assert [row["dim"] for row in evaluate_classes(x, y, x, y, shares=(1.0,))] == [2, 4, 6]


def test_a_class_without_training_items_counts_as_errors() -> None:
    (x, y), (x_test, y_test) = clusters(60), clusters(30, seed=1)
    there = y < 2
    (row,) = evaluate_classes(x[there], y[there], x_test, y_test, dims=[6], shares=(1.0,))
    assert 0.6 < row["knn"] <= 2 / 3 and 0.6 < row["linear"] <= 2 / 3


def test_a_standardised_probe_reads_features_as_they_are() -> None:
    (x, y), (x_test, _) = clusters(60), clusters(30, seed=1)
    scale = torch.tensor([1e-2, 1e6, 1.0, 1.0, 1.0, 0.0])  # the last one constant
    probe = fit_standardised_sgd(x * scale + 7, y)
    mean, deviation = x.mean(0), x.std(0, correction=0)
    standard = torch.cat([((x - mean) / deviation)[:, :5], torch.zeros(60, 1)], dim=1)
    plain = fit_sgd(standard, y)
    expected = F.linear((x_test - mean) / deviation, plain.weight, plain.bias)
    found = F.linear(x_test * scale + 7, probe.weight, probe.bias)
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)
    assert probe.weight[:, 5].abs().max() == 0


def test_sgd_is_as_good_as_ridge_here() -> None:
    (x, y), (x_test, y_test) = clusters(90), clusters(30, seed=1)
    (row,) = evaluate_classes(x, y, x_test, y_test, dims=[6], shares=(1.0,), probe="sgd")
    assert row["linear"] > 0.95


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probe": "svm"}, "probe.*'svm'"),
        ({"dims": [7]}, "dim.*1.*6.*7"),
        ({"shares": (0.0,)}, "fraction.*0"),
        ({"train_labels": np.zeros(3, int)}, "train_labels.*3 entries.*30"),
        ({"test_labels": np.zeros(30)}, "test_labels.*class numbers"),
    ],
    ids=str,
)
def test_bad_input_says_what_is_allowed(change: dict[str, Any], message: str) -> None:
    x, y = clusters(30)
    given: dict[str, Any] = {"train": x, "train_labels": y, "test": x, "test_labels": y} | change
    with pytest.raises(EigenmapError, match=message):
        evaluate_classes(**given)
