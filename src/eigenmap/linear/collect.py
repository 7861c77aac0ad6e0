"""Moments of training pairs and held-out pairs, and the held-out search task, from one pass over the vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.data.vectors.vectors import Vectors, as_rows
from eigenmap.linear.finding import TOP, Judge
from eigenmap.linear.moments import PairMoments
from eigenmap.relations.pairs import Kind, Part, VectorPairs

MOST_JUDGED = 2_000
"""Maximum number of held-out queries."""
AGREEMENT_RIDGE = 0.01
"""Ridge of the prediction from a second model's vectors, in units of their mean variance."""

Progress = Callable[[int, int], object]
Rows = npt.NDArray[np.int64]


Outputs = Callable[[npt.NDArray[Any]], Tensor]
"""Function applied to rows before the linear map."""


class Both(NamedTuple):
    """Functions applied to the rows of the two sides."""

    left: Outputs
    right: Outputs

    @classmethod
    def plain(cls, unit: bool) -> Both:
        """Use the rows themselves, scaled to one norm if `unit`."""
        return cls(lambda rows: as_rows(rows, unit), lambda rows: as_rows(rows, unit))

    @classmethod
    def about(cls, left: Tensor, right: Tensor, unit: bool) -> Both:
        """Use the rows minus a row of their side: beside a large mean, variances would be lost to rounding."""
        return cls(lambda rows: as_rows(rows, unit) - left, lambda rows: as_rows(rows, unit) - right)


UNLABELLED: tuple[Kind, ...] = ("neighbours", "second model")
"""Relations derived from the vectors themselves."""


class Collected(NamedTuple):
    """Result of one pass over the pairs; `rows` are the moments of all rows if the relation is `UNLABELLED`."""

    fit: PairMoments
    held_out: PairMoments
    judge: Judge
    rows: PairMoments | None = None


def collect(pairs: VectorPairs, outputs: Both, progress: Progress | None = None) -> Collected:
    """Collect the moments of training pairs and held-out pairs under `outputs`, and the held-out search task."""
    total = pairs.count + sum(map(len, pairs.held_out))
    tick = _Counter(progress, total)
    fit, held_out = (_moments(parts, outputs, tick) for parts in (pairs.fit, pairs.held_out))
    if pairs.kind == "second model":
        fit, held_out = agreed(fit, held_out)
    rows = _row_moments(pairs.left, outputs.left) if pairs.kind in UNLABELLED else None
    return Collected(fit, held_out, judge_of(pairs, outputs), rows)


def agreed(fit: PairMoments, held_out: PairMoments) -> tuple[PairMoments, PairMoments]:
    r"""Return moments of the pairs (x, prediction of x from z): agreement of two models as a relation in x's space.

        A = E[x z^T] B,        B = (E_fit[z z^T] + gamma I)^-1 E_fit[z x^T]

    B comes from training pairs only, so that held-out moments stay unbiased.
    """
    S = fit.within_plus / fit.within[-1, -1]
    variance = S.diagonal()[:-1] - S[-1, :-1].square()  # the last entry of a row is 1
    ridge = AGREEMENT_RIDGE * variance.mean() * torch.eye(len(S)).to(S)
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


def judge_of(pairs: VectorPairs, outputs: Both) -> Judge:
    """Return the search task of held-out queries."""
    if pairs.kind == "second model":
        return _by_other_model(pairs.held_out[0], outputs)
    if pairs.labels is not None:
        return _by_label(pairs, pairs.labels, outputs)
    if pairs.kind == "views" and len(pairs.held_out) > 1:
        return _by_view(pairs.held_out, outputs)
    part = _joined(pairs.held_out) if len(pairs.held_out) > 1 else pairs.held_out[0]
    return _by_pairs(part, outputs)


def pair_moments(parts: Sequence[Part], outputs: Both) -> PairMoments:
    """Return the moments of pairs under `outputs`."""
    return _moments(parts, outputs, _Counter(None, 0))


def _moments(parts: Sequence[Part], outputs: Both, tick: _Counter) -> PairMoments:
    moments: PairMoments | None = None
    for part in parts:
        for block in part.blocks():
            weights = None if block.weights is None else torch.from_numpy(block.weights)
            left, right = outputs.left(block.left), outputs.right(block.right)
            moments = moments or PairMoments(left.shape[1], right.shape[1])
            moments.update(left, right, weights)
            tick(len(left))
    if moments is None:
        raise EigenmapError("There are too few pairs to hold some out; give more.")
    return moments


def _row_moments(vectors: Vectors, output: Outputs) -> PairMoments:
    """Return the moments of all rows, each counted once; pairs count a row as often as it has neighbours."""
    moments: PairMoments | None = None
    for block in vectors.blocks():
        rows = output(block)
        moments = moments or PairMoments(rows.shape[1])
        moments.update(rows, rows)
    assert moments is not None
    return moments


def _by_pairs(part: Part, outputs: Both) -> Judge:
    """Take left rows as queries, and right rows that belong to one of them as the gallery."""
    kept = np.flatnonzero(np.isin(part.i, _spread(np.unique(part.i))))
    some = _spread(kept, 2 * MOST_JUDGED)
    queries, gallery = np.unique(part.i[some]), np.unique(part.j[some])
    if len(gallery) < 2:
        raise EigenmapError(
            "All held-out pairs have the same right row, so codes cannot be compared on them; give more pairs."
        )
    relevant = torch.zeros(len(queries), len(gallery), dtype=torch.bool)
    i, j = part.i[kept], part.j[kept]  # also pairs not in `some`, since both of their rows may be
    both = np.isin(i, queries) & np.isin(j, gallery)
    relevant[np.searchsorted(queries, i[both]), np.searchsorted(gallery, j[both])] = True
    own = torch.from_numpy(queries[:, None] == gallery) if part.left is part.right else None
    return Judge(outputs.left(part.left.take(queries)), outputs.right(part.right.take(gallery)), relevant, own)


def _by_label(pairs: VectorPairs, labels: Rows, outputs: Both) -> Judge:
    rows = _spread(np.unique(np.concatenate([part.i for part in pairs.held_out])))
    numbers = torch.from_numpy(labels[rows])
    found = outputs.left(pairs.left.take(rows))
    own = torch.eye(len(rows), dtype=torch.bool)
    return Judge(found, found, (numbers[:, None] == numbers) & ~own, own)


def _by_view(parts: Sequence[Part], outputs: Both) -> Judge:
    """Take every view as a query, and the other views of its item as relevant."""
    first = parts[0].left
    every = [first, *(part.right for part in parts if part.left is first)]
    rows = _spread(parts[0].i, MOST_JUDGED // len(every))
    found = outputs.left(np.concatenate([view.take(rows) for view in every]))
    items = torch.arange(len(rows)).repeat(len(every))
    own = torch.eye(len(found), dtype=torch.bool)
    return Judge(found, found, (items[:, None] == items) & ~own, own)


def _by_other_model(part: Part, outputs: Both) -> Judge:
    """Take the nearest rows by the other model as relevant."""
    rows = _spread(part.i)
    found, other = outputs.left(part.left.take(rows)), as_rows(part.right.take(rows), unit=True)
    similarity = other @ other.T
    similarity.fill_diagonal_(-torch.inf)
    nearest = similarity.topk(min(TOP, len(rows) - 1), dim=1).indices
    relevant = torch.zeros(len(rows), len(rows), dtype=torch.bool).scatter_(1, nearest, True)
    return Judge(found, found, relevant, own=torch.eye(len(rows), dtype=torch.bool))


def _spread(rows: Rows, most: int = MOST_JUDGED) -> Rows:
    """Return at most `most` of the rows, evenly spread."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]


def _joined(parts: Sequence[Part]) -> Part:
    """Copy some held-out pairs of several trajectories into one small matrix per side; each becomes one query."""
    counts = [len(part) for part in parts]
    chosen = _spread(np.arange(sum(counts)))
    ends = np.searchsorted(chosen, np.cumsum(counts))
    first = np.cumsum([0, *counts])
    kept = [part.where(chosen[a:b] - start) for part, a, b, start in zip(parts, [0, *ends], ends, first, strict=False)]
    left = np.concatenate([part.left.take(part.i) for part in kept])
    right = np.concatenate([part.right.take(part.j) for part in kept])
    rows = np.arange(len(chosen))
    name = parts[0].left.name
    return Part(Vectors(left, name), Vectors(right, name), rows, rows)


class _Counter:
    """Counter of processed pairs that reports progress."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self, pairs: int) -> None:
        self.done += pairs
        if self.progress is not None:
            self.progress(self.done, self.total)
