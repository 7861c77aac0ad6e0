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
    labels = _matrix([str(items.metadata[i][LABEL]) for i in rows], several)
    if len(rows) < 4 or labels.shape[1] < 2:
        return None
    codes = items.codes[rows]
    asked = min(QUERIES, len(rows) // 4)
    given = (codes[:asked], codes[asked:], labels[:asked], labels[asked:])
    dims = lengths(codes.shape[1], first=1)
    ordered = retrieval(*given, dims, (TOP,))
    random = random_features(*given, dims, (TOP,), draws=DRAWS)
    return Quality(dims, [row[METRIC] for row in ordered], [row[METRIC] for row in random], asked, len(rows) - asked)


def _matrix(labels: list[str], several: bool) -> NDArray[np.bool_]:
    """Return a matrix of items (rows) by labels (columns)."""
    sets = [set(label.split()) if several else {label} for label in labels]
    names = sorted(set().union(*sets)) if sets else []
    place = {name: column for column, name in enumerate(names)}
    matrix = np.zeros((len(labels), len(names)), bool)
    for row, own in enumerate(sets):
        matrix[row, [place[name] for name in own]] = True
    return matrix
