"""Retrieval quality by length on labelled items, for leading features and for random ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigenmap.search.backend import ItemBatch
from eigenmap.service.overview import LABEL

QUERIES = 500
GALLERY = 10_000
TOP = 100
METRIC = f"map_over_found@{TOP}"
DRAWS = 3
SEVERAL = "several_labels"
"""Name of the note in an index that marks labels as lists, separated by spaces."""


class Quality(NamedTuple):
    """mAP at each length, for the leading features and for random ones (mean over draws)."""

    dims: list[int]
    ordered: list[float]
    random: list[float]
    queries: int
    gallery: int


def measure_quality(items: ItemBatch, several: bool) -> Quality | None:
    """Use some items as queries against the others; None if there are fewer than two labels or too few items.

    `items` are in random order. With `several`, a label is a list separated by spaces, and two items match
    if they share one.
    """
    from eigenmap.evaluation.retrieval import lengths, random_features, retrieval

    rows = [i for i, item in enumerate(items.metadata) if item.get(LABEL) is not None][: QUERIES + GALLERY]
    names = [str(items.metadata[i][LABEL]) for i in rows]
    if len(rows) < 4 or len(_distinct(names, several)) < 2:
        return None
    labels = _matrix(names) if several else np.unique(names, return_inverse=True)[1]
    codes = items.codes[rows]
    asked = min(QUERIES, len(rows) // 4)
    given = (codes[:asked], codes[asked:], labels[:asked], labels[asked:])
    dims = lengths(codes.shape[1], first=1)
    ordered = retrieval(*given, dims, (TOP,))
    random = random_features(*given, dims, (TOP,), draws=DRAWS)
    return Quality(dims, [row[METRIC] for row in ordered], [row[METRIC] for row in random], asked, len(rows) - asked)


def _distinct(labels: list[str], several: bool) -> list[str]:
    return sorted({name for label in labels for name in (label.split() if several else [label])})


def _matrix(labels: list[str]) -> NDArray[np.bool_]:
    """Return a matrix of items (rows) by labels (columns), from lists separated by spaces."""
    place = {name: column for column, name in enumerate(_distinct(labels, several=True))}
    matrix = np.zeros((len(labels), len(place)), bool)
    for row, label in enumerate(labels):
        matrix[row, [place[name] for name in label.split()]] = True
    return matrix
