"""Classification from codes at every length, with few labels or all.

Two classifiers leave the codes as they are: a weighted vote of the nearest neighbours (`neighbours`) and a linear probe
(`probe`), in closed form or by the paper's SGD recipe on standardised features.

    rows = evaluate_classes(train_codes, train_labels, test_codes, test_labels, shares=(0.01, 1.0))
    rows[0]   # {"dim": 2, "share": 0.01, "labels": 500, "knn": 0.41, "linear": 0.38}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict, get_args

import torch
from torch import Tensor

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.evaluation.checks import class_numbers
from eigenmap.evaluation.neighbours import knn_accuracy
from eigenmap.evaluation.probe import LinearProbe, fit_ridge, fit_sgd, fractions, standardisation
from eigenmap.evaluation.ranking import CodesLike, check_codes, codes_as_tensor, device_of
from eigenmap.evaluation.retrieval import lengths

ProbeKind = Literal["ridge", "sgd"]


class ClassRow(TypedDict):
    """Accuracies on the test items for one code length and one share of the training labels."""

    dim: int
    share: float
    labels: int
    knn: float
    linear: float


def evaluate_classes(
    train: CodesLike,
    train_labels: CodesLike,
    test: CodesLike,
    test_labels: CodesLike,
    *,
    dims: Sequence[int] | None = None,
    shares: Sequence[float] = (0.01, 0.1, 1.0),
    probe: ProbeKind = "ridge",
    n_neighbours: int = 200,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> list[ClassRow]:
    """Classify test items by the codes and labels of training items, for each share of labels and each length.

    Labels are class numbers; a test item whose class no training item has counts as an error. The rounded share of each
    class, at least one item, is drawn by `seed`; smaller shares are subsets of larger ones.
    """
    width = check_codes(test, train)
    at = lengths(width) if dims is None else [whole_number(dim, "dim", 1, width) for dim in dims]
    if probe not in get_args(ProbeKind):
        raise EigenmapError(f"probe must be one of {', '.join(get_args(ProbeKind))}, not {probe!r}")
    fit = fit_ridge if probe == "ridge" else fit_standardised_sgd
    place = torch.device(device) if device is not None else device_of(train)
    known, asked = codes_as_tensor(train, place), codes_as_tensor(test, place)
    labels = class_numbers(train_labels, len(train), "train_labels")
    truth = class_numbers(test_labels, len(test), "test_labels")
    numbers = torch.unique(torch.cat([labels, truth]))  # gaps between class numbers would only take memory
    labels, truth = (torch.searchsorted(numbers, each) for each in (labels, truth))
    rows = []
    for share, few in fractions(labels, shares, seed).items():
        for dim in at:
            x, y = known[few.to(place), :dim], labels[few]
            queries = asked[:, :dim]
            rows.append(
                ClassRow(
                    dim=dim,
                    share=share,
                    labels=len(few),
                    knn=knn_accuracy(queries, truth, x, y, n_neighbours=n_neighbours),
                    linear=fit(x, y).accuracy(queries, truth),
                )
            )
    return rows


@torch.no_grad()
def fit_standardised_sgd(features: Tensor, labels: CodesLike) -> LinearProbe:
    """Apply `fit_sgd` to features of mean 0 and variance 1, and return a probe of the original features.

        W (x - m) / s + b = (W / s) x + (b - W m / s)

    A feature that is constant on the training items is ignored.
    """
    mean, scale = standardisation(features)
    fitted = fit_sgd((features - mean) * scale, labels)
    weight = fitted.weight * scale
    return LinearProbe(weight, fitted.bias - weight @ mean)
