"""Choice of the map, ridge, exponent and centring on held-out pairs.

The candidates are maps fitted to the pairs with several ridges and exponents, with and without centring; principal
components; and the unchanged vectors (`solutions`). They are compared by nDCG@10 on the same held-out pairs, averaged
over lengths. The winner is never more than `SLACK` below the better of PCA and prefix, at any length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.data.vectors.vectors import as_rows, load_vectors
from eigenmap.linear.finding import Judge, judged_lengths, table_lengths
from eigenmap.linear.moments import PairMoments
from eigenmap.linear.solutions import TwoMaps, canonical, prefix, principal
from eigenmap.spectrum import Alignment, align

RIDGES = (0.0, 0.001, 0.01, 0.1, 0.3, 1.0, 3.0)
"""Candidates for gamma, in units of the mean variance of a feature."""
EXPONENTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Candidates for t; with 1/2, inner products of codes approximate the likelihood ratio of a pair."""
FIRST_EXPONENTS = (0.0, 0.5, 1.0)
"""Exponents tried with every ridge; the others are tried only with the best ridge."""
SLACK = 0.002
"""Difference in nDCG@10 that is ignored."""
UNLABELLED_GAIN = 0.1
"""Gain over PCA and prefix, averaged over lengths, that a candidate needs without labels.

Neighbours of the vectors, or of another model's vectors, are a poor substitute for relevance to people."""
SIMPLE = ("pca", "prefix")
"""Candidates that are not fitted to pairs."""

Metric = Literal["ndcg@10", "vamp-2"]
Scores = dict[int, float]
Codes = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Candidate:
    """Candidate maps with their score at each length."""

    name: str
    maps: TwoMaps
    centred: bool
    scores: Scores = field(default_factory=dict)

    @property
    def quality(self) -> float:
        """Mean score over lengths."""
        return sum(self.scores.values()) / max(1, len(self.scores))

    @property
    def t(self) -> float:
        """Exponent of the weights."""
        return self.maps.left.t


@dataclass(frozen=True)
class PairAlignment:
    """Linear codes of pairs, returned by `align_pairs`.

    Attributes:
        left: map from vectors of the first space to codes.
        right: map of the second space; `left` itself if there is only one space.
        winner: "pairs", "pca", "pca whitened" or "prefix".
        centred: whether the mean is subtracted.
        unit: whether rows are scaled to one norm before the map.
        scores: `metric` on held-out pairs by method and length: "ours", "pca" and "prefix".
        pairs: number of training pairs.
        held_out: number of held-out queries.
        metric: "ndcg@10", or "vamp-2" for time series.
        start: the maps of the training pairs alone, if `left` and `right` come from all pairs.

    """

    left: Alignment
    right: Alignment
    winner: str
    centred: bool
    unit: bool
    scores: Mapping[str, Scores]
    pairs: int
    held_out: int
    metric: Metric = "ndcg@10"
    start: TwoMaps | None = None

    @property
    def n_components(self) -> int:
        """Number of features: the length of the longest code."""
        return self.left.n_components

    @property
    def correlations(self) -> Tensor:
        """Correlation of each feature between the two sides of held-out pairs."""
        return self.left.eigenvalues

    @property
    def quality(self) -> float:
        """Mean of the metric over `judged_lengths`, or over all lengths of a time series."""
        scores = self.scores["ours"]
        lengths = judged_lengths(self.n_components) if self.metric == "ndcg@10" else list(scores)
        return sum(scores[d] for d in lengths) / len(lengths)

    def encode(self, vectors: object, dim: int | None = None, side: Literal["left", "right"] = "left") -> Codes:
        """Return the codes of vectors of one side, cut at `dim` features, as float32 rows of norm 1."""
        if side not in ("left", "right"):
            raise EigenmapError(f'side must be "left" or "right", not {side!r}.')
        alignment = self.left if side == "left" else self.right
        rows = load_vectors(vectors, n_features=alignment.rotation.shape[0])
        dim = alignment.n_components if dim is None else whole_number(dim, "dim", 1, alignment.n_components)
        codes = [alignment.apply(as_rows(block, self.unit), dim).float().numpy() for block in rows.blocks()]
        return np.concatenate(codes)

    def moved(self, left: Tensor, right: Tensor) -> PairAlignment:
        """Return the maps of rows that were fitted minus `left` and `right`."""
        maps = TwoMaps(self.left, self.right).moved(left, right)
        start = None if self.start is None else self.start.moved(left, right)
        return replace(self, left=maps.left, right=maps.right, start=start)

    def suggest_dim(self, keep: float = 0.95) -> int:
        """Return the shortest length that keeps this share of the score of the longest code."""
        return shortest(self.scores["ours"], keep)


def shortest(scores: Mapping[int, float], keep: float) -> int:
    """Return the shortest length such that it and all longer ones score at least this share of the longest."""
    if not 0 < keep <= 1:
        raise EigenmapError(f"keep must be in (0, 1], for example 0.95, not {keep!r}.")
    lengths = sorted(scores)
    wanted = keep * scores[lengths[-1]] - 1e-12
    enough = [d for i, d in enumerate(lengths) if all(scores[longer] >= wanted for longer in lengths[i:])]
    return enough[0]


def choose(
    fit: PairMoments,
    held_out: PairMoments,
    judge: Judge,
    *,
    n_components: int | None = None,
    two_spaces: bool = False,
    ridges: Sequence[float] = RIDGES,
    exponents: Sequence[float] = EXPONENTS,
    centre: Sequence[bool] = (True, False),
    rows: PairMoments | None = None,
) -> tuple[Candidate, dict[str, Scores]]:
    """Return the best candidate, and the scores of "ours", "pca" and "prefix" by length.

    Two spaces are always centred: otherwise the constant, which all pairs share, would be the first feature.

    `rows` are the moments of all rows if the relation comes from the vectors themselves. PCA is then that of `rows`;
    any other candidate needs a gain of `UNLABELLED_GAIN`.
    """
    centre = [True] if two_spaces else centre
    shared = [_cut(one, n_components) for one in _fitted(fit, held_out, ridges, centre, two_spaces)]
    plain_centre = centre if rows is None else [True]
    simple = [] if two_spaces else [_cut(one, n_components) for one in _simple(rows or fit, held_out, plain_centre)]
    lengths = judged_lengths(min(one.maps.left.n_components for one in [*shared, *simple]))
    first = [t for t in exponents if t in FIRST_EXPONENTS] or exponents
    rated = [one for candidate in shared for one in _rated(candidate, judge, lengths, first)]
    best = _best(rated)
    rated += _rated(best, judge, lengths, [t for t in exponents if t not in first])
    simple = [replace(one, scores=_scores(one, judge, lengths)) for one in simple]
    plain = [one for one in simple if one.name in SIMPLE]
    gain = 0.0 if rows is None else UNLABELLED_GAIN
    best = _finished(_unbeaten([*simple, *rated], plain, judge, gain), judge)
    table = {"ours": _scores(best, judge, table_lengths(best.maps.left.n_components))}
    for name in SIMPLE:
        if named := [one for one in plain if one.name == name]:
            ours = _best(named)
            table[name] = _scores(ours, judge, table_lengths(ours.maps.left.n_components))
    return best, table


def _fitted(
    fit: PairMoments, held_out: PairMoments, ridges: Sequence[float], centre: Sequence[bool], two_spaces: bool
) -> Iterator[Candidate]:
    for centred in centre:
        for ridge in ridges:
            if two_spaces:
                yield Candidate("pairs", canonical(fit, held_out, ridge, centre=centred), centred)
            else:
                one = align(fit, held_out, ridge, centre=centred)
                yield Candidate("pairs", TwoMaps(one, one), centred)


def _simple(fit: PairMoments, held_out: PairMoments, centre: Sequence[bool]) -> Iterator[Candidate]:
    plain = prefix(held_out)
    yield Candidate("prefix", TwoMaps(plain, plain), centred=False)
    for centred in centre:
        for name, whitened in (("pca", 0.0), ("pca whitened", 0.5), ("pca whitened", 1.0)):
            one = principal(fit, held_out, centre=centred, whitened=whitened)
            yield Candidate(name, TwoMaps(one, one), centred)


def _cut(candidate: Candidate, n_components: int | None) -> Candidate:
    return replace(candidate, maps=candidate.maps.cut(n_components))


def _rated(candidate: Candidate, judge: Judge, lengths: Sequence[int], exponents: Iterable[float]) -> list[Candidate]:
    """Score the candidate with each exponent; codes are computed once, since exponents change only the weights."""
    maps = candidate.maps
    left, right = (
        side.apply(rows, t=0.0, unit=False) for side, rows in ((maps.left, judge.queries), (maps.right, judge.gallery))
    )
    found = []
    for t in exponents:
        weights = maps.left.weights(t).to(left)
        scores = judge.scores(left * weights, right * weights, lengths)
        weighted = replace(maps.left, t=t)
        other = weighted if maps.right is maps.left else replace(maps.right, t=t)
        found.append(replace(candidate, maps=TwoMaps(weighted, other), scores=scores))
    return found


def _scores(candidate: Candidate, judge: Judge, lengths: Sequence[int]) -> Scores:
    maps = candidate.maps
    return judge.of(lambda x: maps.left.apply(x, unit=False), lambda y: maps.right.apply(y, unit=False), lengths)


def _finished(best: Candidate, judge: Judge) -> Candidate:
    """Return the winner with its quality and its recall curve."""
    maps = best.maps
    left, right = (
        side.apply(rows, unit=False) for side, rows in zip(maps, (judge.queries, judge.gallery), strict=True)
    )
    recall = judge.recall(left, right, table_lengths(maps.left.n_components))
    told = replace(maps.left, quality=best.quality, recall=recall)
    other = told if maps.right is maps.left else replace(maps.right, quality=best.quality, recall=dict(recall))
    return replace(best, maps=TwoMaps(told, other))


def _best(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate with the best rounded quality, the first of equals."""
    return max(candidates, key=lambda one: round(one.quality, 6))


def _unbeaten(
    candidates: Sequence[Candidate], simple: Sequence[Candidate], judge: Judge, gain: float = 0.0
) -> Candidate:
    """Return the best candidate that the best simple one beats at no reported length, or else the simple one.

    The candidate must exceed the simple one by `gain`, averaged over lengths.
    """
    if not simple:
        return _best(candidates)
    floor = _best(simple)
    told = _scores(floor, judge, table_lengths(floor.maps.left.n_components))
    for one in sorted(candidates, key=lambda one: -round(one.quality, 6)):
        if one.quality <= floor.quality + gain:
            break
        ours = _scores(one, judge, table_lengths(one.maps.left.n_components))
        if all(ours[d] >= told[d] - SLACK for d in ours if d in told):
            return one
    return floor
