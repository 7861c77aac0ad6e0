r"""Slow modes of a time series: the linear functions of x_t that best predict x_{t + lag}.

Reversible (TICA [1]): both directions of time count, one map, A v = mu C v. Not reversible (VAMP [2]): the leading
singular functions of x_t -> x_{t + lag}, one map for each end. Maps of d features are judged on held-out rows by

    VAMP-2 = 1 + || (U^T C U)^-1/2  U^T A V  (V^T C_plus V)^-1/2 ||^2_F,        moments about their means,

the sum of the squared singular values inside the span, including 1 for the constant. Once the ridge is chosen, modes
and eigenvalues come from all rows.

[1] Perez-Hernandez, Paul, Giorgino, De Fabritiis, Noe: Identification of slow molecular order parameters, 2013.
[2] Wu, Noe: Variational approach for learning Markov processes from time series data, 2020.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.linear.choice import RIDGES, Candidate, PairAlignment, Scores
from eigenmap.linear.collect import Collected
from eigenmap.linear.finding import Judge, table_lengths
from eigenmap.linear.moments import PairMoments
from eigenmap.linear.solutions import TwoMaps, canonical, prefix, principal
from eigenmap.spectrum import align
from eigenmap.spectrum.ritz import Directions

EXPONENT = 1.0
"""Weight exponent t: with 1, distances of codes are kinetic distances (Noe, Clementi, 2015)."""
ROWS_PER_MOMENT = 10
"""Minimum number of held-out pairs per moment: d features, which have d^2 moments, are judged by at least 10 d^2."""


def slow_modes(
    found: Collected, n_components: int, *, reversible: bool, unit: bool, pairs: int, ridges: Sequence[float] = RIDGES
) -> PairAlignment:
    """Return the slowest features, with the ridge whose features score best on held-out trajectories."""
    fit, held_out = found.fit, found.held_out
    best, lengths = _best(fit, held_out, n_components, reversible, ridges)
    scores = {"ours": best.scores}
    for name, one in (("pca", principal(fit, held_out)), ("prefix", prefix(held_out))):
        scores[name] = vamp_scores(TwoMaps(one, one), held_out, [d for d in lengths if d <= one.n_components])
    everything = PairMoments(fit.n_features, len(fit.within_plus) - 1).merge(fit).merge(held_out)
    assert isinstance(everything, PairMoments)
    maps = _maps(everything, everything, best.maps.left.ridge, reversible).cut(n_components)
    left, right = _finished(maps, best.quality, found.judge)
    held = round(held_out.pairs)
    return PairAlignment(left, right, "pairs", True, unit, scores, pairs, held, metric="vamp-2", start=best.maps)


def vamp_scores(maps: TwoMaps, held_out: PairMoments, lengths: Sequence[int]) -> Scores:
    """Return VAMP-2 of the first features of two maps at each length."""
    of = held_out.sides()
    C, C_plus, A = (
        a.rotation.T @ S @ b.rotation
        for a, S, b in (
            (maps.left, of.C, maps.left),
            (maps.right, of.C_plus, maps.right),
            (maps.left, of.A, maps.right),
        )
    )
    return {d: vamp2(C[:d, :d], C_plus[:d, :d], A[:d, :d]) for d in lengths}


def vamp2(C: Tensor, C_plus: Tensor, A: Tensor) -> float:
    """Return 1 plus the sum of the squared singular values of C^-1/2 A C_plus^-1/2."""
    return 1.0 + float((Directions.of(C).whitening().T @ A @ Directions.of(C_plus).whitening()).square().sum())


def vamp2_of(left: npt.ArrayLike, right: npt.ArrayLike) -> float:
    """Return VAMP-2 of features (n, d) of x_t and (n, d') of x_{t + lag}: any functions, linear or not."""
    x, y = (torch.from_numpy(np.asarray(side, dtype=np.float64)) for side in (left, right))
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or len(x) < 2:
        raise EigenmapError(
            "VAMP-2 needs two matrices with the same number of rows, at least 2, not shapes "
            f"{tuple(x.shape)} and {tuple(y.shape)}."
        )
    x, y = x - x.mean(0), y - y.mean(0)
    return vamp2(x.T @ x / len(x), y.T @ y / len(x), x.T @ y / len(x))


def judged(n_components: int, held_out: PairMoments) -> list[int]:
    """Return the lengths that held-out pairs can judge: 1, 2, 3, 4, 6, 8, 12, ... and all features."""
    short = [*{1, 2, 3, 4, 6} & set(range(1, n_components))]
    lengths = sorted({*short, *table_lengths(n_components)})
    return [d for d in lengths if ROWS_PER_MOMENT * d * d <= held_out.pairs] or [1]


def _best(
    fit: PairMoments, held_out: PairMoments, n_components: int, reversible: bool, ridges: Sequence[float]
) -> tuple[Candidate, list[int]]:
    def candidates() -> Iterator[Candidate]:
        for ridge in ridges:
            maps = _maps(fit, fit, ridge, reversible).cut(n_components)
            lengths = judged(maps.left.n_components, held_out)
            yield Candidate("pairs", maps, True, vamp_scores(maps, held_out, lengths))

    best = max(candidates(), key=lambda one: round(one.quality, 6))
    return best, sorted(best.scores)


def _maps(fit: PairMoments, held_out: PairMoments, ridge: float, reversible: bool) -> TwoMaps:
    if not reversible:
        return canonical(fit, held_out, ridge)
    one = align(fit, held_out, ridge)
    return TwoMaps(one, one)


def _finished(maps: TwoMaps, quality: float, judge: Judge) -> TwoMaps:
    """Return the maps with their weights, score and neighbour recall."""
    left, right = (replace(side, t=EXPONENT, quality=quality) for side in maps)
    codes = left.apply(judge.queries, unit=False), right.apply(judge.gallery, unit=False)
    recall = judge.recall(*codes, table_lengths(left.n_components))
    left = replace(left, recall=recall)
    return TwoMaps(left, left if maps.right is maps.left else replace(right, recall=dict(recall)))
