"""One pass over pairs of vectors: the moments of those to learn from and of those held out, and what is to be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.data.vectors.vectors import Vectors
from eigenmap.linear.finding import TOP, Judge
from eigenmap.linear.moments import PairMoments
from eigenmap.relations.pairs import Part, VectorPairs
from eigenmap.spectrum import unit_rows

MOST_JUDGED = 2_000
"""Queries, and things among which they are looked for."""
AGREEMENT_RIDGE = 0.01
"""Ridge of the prediction from a second model's vectors, in units of their mean variance."""

Progress = Callable[[int, int], object]
Rows = npt.NDArray[np.int64]


class Collected(NamedTuple):
    """What one pass over the pairs finds out."""

    fit: PairMoments
    held_out: PairMoments
    judge: Judge


def collect(pairs: VectorPairs, unit: bool, progress: Progress | None = None) -> Collected:
    """Moments of both parts of the pairs; rows are scaled to one norm first if `unit`."""
    total = pairs.count + sum(map(len, pairs.held_out))
    tick = _Counter(progress, total)
    fit, held_out = (_moments(pairs, parts, unit, tick) for parts in (pairs.fit, pairs.held_out))
    if pairs.kind == "second model":
        fit, held_out = agreed(fit, held_out)
    return Collected(fit, held_out, judge_of(pairs, unit))


def agreed(fit: PairMoments, held_out: PairMoments) -> tuple[PairMoments, PairMoments]:
    r"""Moments of pairs (x, what z says of x): agreement of two models as a relation within the first one's space.

        A = E[x z^T] B,        B = (E_fit[z z^T] + gamma I)^-1 E_fit[z x^T]

    B comes from the pairs that are learned from alone, so that held-out moments stay honest.
    """
    S = fit.within_plus / fit.within[-1, -1]
    ridge = AGREEMENT_RIDGE * S.diagonal()[:-1].mean() * torch.eye(len(S)).to(S)
    ridge[-1, -1] = 0.0
    B = torch.linalg.solve(S + ridge, fit.across.T / fit.within[-1, -1])
    made = []
    for moments in (fit, held_out):
        one = PairMoments(moments.n_features)
        one.within += moments.within
        one.within_plus += moments.within
        one.across += moments.across @ B
        one.squares += moments.squares
        made.append(one)
    return made[0], made[1]


def judge_of(pairs: VectorPairs, unit: bool) -> Judge:
    """What held-out queries are to find."""
    if pairs.kind == "second model":
        return _by_other_model(pairs.held_out[0], unit)
    if pairs.labels is not None:
        return _by_label(pairs, pairs.labels, unit)
    part = _joined(pairs.held_out) if len(pairs.held_out) > 1 else pairs.held_out[0]
    return _by_pairs(part, unit)


def rows_of(vectors: Vectors, rows: Rows, unit: bool) -> Tensor:
    """These rows as the map sees them."""
    return as_rows(vectors.take(rows), unit)


def as_rows(rows: npt.NDArray[Any], unit: bool) -> Tensor:
    """Rows as a tensor, of one norm if `unit`."""
    made = torch.from_numpy(rows)
    return unit_rows(made) if unit else made


def _moments(pairs: VectorPairs, parts: Any, unit: bool, tick: _Counter) -> PairMoments:
    moments = PairMoments(pairs.left.n_features, pairs.right.n_features)
    for part in parts:
        for block in part.blocks():
            weights = None if block.weights is None else torch.from_numpy(block.weights)
            moments.update(as_rows(block.left, unit), as_rows(block.right, unit), weights)
            tick(len(block.left))
    return moments


def _by_pairs(part: Part, unit: bool) -> Judge:
    """Queries are left rows, the gallery is all right rows that belong to one of them."""
    things = np.unique(part.i)
    if len(things) > MOST_JUDGED:
        things = things[np.linspace(0, len(things) - 1, MOST_JUDGED).astype(np.int64)]
    kept = np.flatnonzero(np.isin(part.i, things))
    if len(kept) > 2 * MOST_JUDGED:
        kept = kept[: 2 * MOST_JUDGED]
    i, j = part.i[kept], part.j[kept]
    queries, row = np.unique(i, return_inverse=True)
    gallery, column = np.unique(j, return_inverse=True)
    relevant = torch.zeros(len(queries), len(gallery), dtype=torch.bool)
    relevant[torch.from_numpy(row), torch.from_numpy(column)] = True
    if len(gallery) < 2:
        raise EigenmapError(
            "All held-out pairs lead to one row, so that nothing can be judged on them; give more pairs."
        )
    return Judge(rows_of(part.left, queries, unit), rows_of(part.right, gallery, unit), relevant)


def _by_label(pairs: VectorPairs, labels: Rows, unit: bool) -> Judge:
    rows = _spread(np.unique(np.concatenate([part.i for part in pairs.held_out])))
    numbers = torch.from_numpy(labels[rows])
    found = rows_of(pairs.left, rows, unit)
    relevant = (numbers[:, None] == numbers).fill_diagonal_(False)
    return Judge(found, found, relevant, own=True)


def _by_other_model(part: Part, unit: bool) -> Judge:
    """A row should have the neighbours that the other model sees."""
    rows = _spread(part.i)
    found, other = rows_of(part.left, rows, unit), rows_of(part.right, rows, unit=True)
    similarity = other @ other.T
    similarity.fill_diagonal_(-torch.inf)
    nearest = similarity.topk(min(TOP, len(rows) - 1), dim=1).indices
    relevant = torch.zeros(len(rows), len(rows), dtype=torch.bool).scatter_(1, nearest, True)
    return Judge(found, found, relevant, own=True)


def _spread(rows: Rows) -> Rows:
    """At most `MOST_JUDGED` of the rows, evenly spread."""
    if len(rows) <= MOST_JUDGED:
        return rows
    return rows[np.linspace(0, len(rows) - 1, MOST_JUDGED).astype(np.int64)]


def _joined(parts: Any) -> Part:
    """Pairs of several views as those of one matrix of rows, which is small: they are held out."""
    left = np.concatenate([part.left.take(part.i) for part in parts])
    right = np.concatenate([part.right.take(part.j) for part in parts])
    # Each pair is a query of its own, with its own partner.
    count = len(left)
    keep = _spread(np.arange(count))
    rows = np.arange(len(keep))
    name = parts[0].left.name
    return Part(Vectors(left[keep], name), Vectors(right[keep], name), rows, rows)


class _Counter:
    """Adds up what is done and passes it on."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self, pairs: int) -> None:
        self.done += pairs
        if self.progress is not None:
            self.progress(self.done, self.total)
