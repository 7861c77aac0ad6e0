"""The held-out choice: which map, ridge, exponent and centring make the codes that find the most.

Candidates are the solutions of `solutions`: maps fitted to the pairs under several ridges and exponents, with and
without centring, principal components, and the vectors as they are. All are judged by nDCG@10 on the same held-out
pairs, averaged over lengths. The winner is never below the better of plain PCA and plain prefix, at any length, by more
than `SLACK`.
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
"""Candidates for t; 1/2 on both sides is the likelihood ratio of a pair."""
FIRST_EXPONENTS = (0.0, 0.5, 1.0)
"""Those that every ridge is judged with; the best ridge gets the others too."""
SLACK = 0.002
"""A difference in nDCG@10 that counts as none."""
UNLABELLED_GAIN = 0.1
"""What a candidate must find more than PCA and prefix, on average over lengths, if nobody said what belongs together:
neighbours, one's own or another model's, are a poor stand-in for what people look for."""
SIMPLE = ("pca", "prefix")
"""Candidates that nothing was fitted to pairs for."""

Scores = dict[int, float]
Codes = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Candidate:
    """A way to make codes, and what it finds at each length."""

    name: str
    maps: TwoMaps
    centred: bool
    scores: Scores = field(default_factory=dict)

    @property
    def quality(self) -> float:
        """The mean over lengths."""
        return sum(self.scores.values()) / max(1, len(self.scores))

    @property
    def t(self) -> float:
        """The exponent of its weights."""
        return self.maps.left.t


@dataclass(frozen=True)
class PairAlignment:
    """Linear codes of pairs: made by `align_pairs`.

    Attributes:
        left: how vectors of the first space become codes.
        right: the same for the second space; `left` itself where there is one space.
        winner: "pairs", "pca", "pca whitened" or "prefix".
        centred: whether the mean is subtracted.
        unit: whether rows are scaled to one norm before the map.
        scores: nDCG@10 on held-out pairs by method and length: "ours", "pca" and "prefix".
        pairs: how many pairs were fitted.
        held_out: how many queries were held out.

    """

    left: Alignment
    right: Alignment
    winner: str
    centred: bool
    unit: bool
    scores: Mapping[str, Scores]
    pairs: int
    held_out: int

    @property
    def n_components(self) -> int:
        """The length of the longest code."""
        return self.left.n_components

    @property
    def correlations(self) -> Tensor:
        """How much of each feature the two sides of a held-out pair share."""
        return self.left.eigenvalues

    @property
    def quality(self) -> float:
        """nDCG@10 averaged over the judged lengths."""
        lengths = judged_lengths(self.n_components)
        return sum(self.scores["ours"][d] for d in lengths) / len(lengths)

    def encode(self, vectors: object, dim: int | None = None, side: Literal["left", "right"] = "left") -> Codes:
        """The codes of vectors of one side, cut at `dim` features: float32 rows of norm 1."""
        if side not in ("left", "right"):
            raise EigenmapError(f'side must be "left" or "right", not {side!r}.')
        alignment = self.left if side == "left" else self.right
        rows = load_vectors(vectors, n_features=alignment.rotation.shape[0])
        dim = alignment.n_components if dim is None else whole_number(dim, "dim", 1, alignment.n_components)
        codes = [alignment.apply(as_rows(block, self.unit), dim).float().numpy() for block in rows.blocks()]
        return np.concatenate(codes)

    def suggest_dim(self, keep: float = 0.95) -> int:
        """The shortest judged length that keeps this share of what the longest code finds."""
        return shortest(self.scores["ours"], keep)


def shortest(scores: Mapping[int, float], keep: float) -> int:
    """The shortest length whose score, and that of all longer ones, is at least this share of the longest's."""
    if not 0 < keep <= 1:
        raise EigenmapError(f"keep must be a share above 0 and up to 1, such as 0.95, not {keep!r}.")
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
    """The best candidate, and the scores of "ours", "pca" and "prefix" by length.

    Two spaces are always centred: the constant, which every pair shares, would come first and find nothing.

    `rows` are the moments of all rows if nobody said which belong together. Plain PCA is then theirs, and another
    candidate has to find `UNLABELLED_GAIN` more to be preferred.
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
    """The candidate with each exponent; codes are made once, since exponents differ in weights alone."""
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
    """The winner, with its quality and how many of its own full-length neighbours a cut code finds."""
    maps = best.maps
    left, right = (
        side.apply(rows, unit=False) for side, rows in zip(maps, (judge.queries, judge.gallery), strict=True)
    )
    recall = judge.recall(left, right, table_lengths(maps.left.n_components))
    told = replace(maps.left, quality=best.quality, recall=recall)
    other = told if maps.right is maps.left else replace(maps.right, quality=best.quality, recall=dict(recall))
    return replace(best, maps=TwoMaps(told, other))


def _best(candidates: Sequence[Candidate]) -> Candidate:
    """The first of the best, but for rounding."""
    return max(candidates, key=lambda one: round(one.quality, 6))


def _unbeaten(
    candidates: Sequence[Candidate], simple: Sequence[Candidate], judge: Judge, gain: float = 0.0
) -> Candidate:
    """The best candidate that the best simple one beats at no reported length; that one itself if there is none.

    A candidate counts only if it finds `gain` more than the simple one, averaged over lengths.
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
