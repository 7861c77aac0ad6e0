"""Ordered linear codes in closed form, from vectors and their partners."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from torch import Tensor

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.data.vectors.vectors import as_rows, load_vectors
from eigenmap.linear.choice import UNLABELLED_GAIN, PairAlignment, choose
from eigenmap.linear.collect import UNLABELLED, Both, Collected, Progress, collect
from eigenmap.linear.slow import slow_modes
from eigenmap.linear.solutions import rank
from eigenmap.relations.pairs import VectorPairs, partners

LONGEST = 512
"""Default maximum number of features."""
CHOOSING = "choosing the map on held-out pairs"
_SAMPLED_NORMS = 256
_ONE_NORM, _OF_SPREAD = 0.01, 0.1
"""Standard deviation below which norms count as equal: share of their mean, and of the deviation of the rows."""

Say = Callable[[str], None]
Waiting = Callable[[str], AbstractContextManager[object]]
"""Called with a description of what goes on inside the context."""


def align_pairs(
    X: object,
    Y: object,
    n_components: int | None = None,
    *,
    two_spaces: bool = False,
    unit: bool | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    say: Say | None = None,
) -> PairAlignment:
    """Learn linear codes from pairs: row i of X belongs to row i of Y.

    Args:
        X: vectors, see `data.vectors.load_vectors`.
        Y: their partners. If their rows have another length than those of X, or with `two_spaces`, each side gets its
            own map (regularised canonical correlations).
        n_components: number of features; up to 512 by default.
        two_spaces: whether X and Y are different spaces although their rows have the same length.
        unit: whether rows are scaled to one norm first; by default, whichever finds more held-out partners.
        seed: seed of the choice of held-out pairs.
        progress: called as `progress(done, total)`.
        say: called with messages.

    Example:
        >>> found = align_pairs(titles, texts)  # doctest: +SKIP
        >>> codes = found.encode(titles, dim=32)  # doctest: +SKIP

    """
    pairs = partners(load_vectors(X, "X"), load_vectors(Y, "Y"), seed, two_spaces)
    return solve(pairs, n_components, unit=unit, progress=progress, say=say)


def solve(
    pairs: VectorPairs,
    n_components: int | None = None,
    *,
    unit: bool | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
    waiting: Waiting = nullcontext,
    at_most: bool = False,
) -> PairAlignment:
    """Return the best linear codes of any pairs; see `linear.choice`. With `at_most` they may have fewer features."""
    check_count(pairs)

    def fitted(way: bool, say: Say | None) -> PairAlignment:
        origin = _origin(pairs, way)
        both = Both.plain(way) if origin is None else Both.about(*origin, way)
        found = collect(pairs, both, progress)
        with waiting(CHOOSING):
            made = aligned(pairs, found, way, n_components, say, at_most)
        return made if origin is None else made.moved(*origin)

    same = one_norm(pairs)
    if unit is not None or pairs.series is not None or same:
        # The norm of a state is part of it.
        return fitted(unit is not False if pairs.series is None else bool(unit), say)
    # If norms differ, try both ways and choose on held-out pairs.
    notes: dict[bool, list[str]] = {True: [], False: []}
    found = [fitted(way, said.append) for way, said in notes.items()]
    best = _better(found[0], found[1], labelled=pairs.kind not in UNLABELLED)
    for line in notes[best.unit]:
        (say or (lambda line: None))(line)
    return best


def _origin(pairs: VectorPairs, unit: bool) -> tuple[Tensor, Tensor] | None:
    """Return the first row of each side, about which to sum if all candidates are centred; otherwise None."""
    if pairs.series is None and not _two_maps(pairs):
        return None
    first = np.zeros(1, np.int64)
    left, right = (as_rows(side.take(first), unit)[0] for side in (pairs.left, pairs.right))
    return left, right


def _two_maps(pairs: VectorPairs) -> bool:
    return pairs.two_spaces and pairs.kind != "second model"


def _better(scaled: PairAlignment, plain: PairAlignment, labelled: bool) -> PairAlignment:
    """Return the better codes; without labels rows stay as they are unless scaling finds far more, as in `choose`."""
    gain = 0.0 if labelled else UNLABELLED_GAIN
    return scaled if round(scaled.quality - gain, 6) >= round(plain.quality, 6) else plain


def check_count(pairs: VectorPairs) -> None:
    """Refuse fewer pairs than features, since the moments would be singular."""
    features = max(part.n_features for part in (pairs.left, pairs.right))
    if pairs.count < features:
        raise EigenmapError(
            f"{pairs.count:,} training pairs are fewer than the {features:,} features of a vector; give at least "
            f"{features:,}, not counting held-out pairs."
        )


def aligned(
    pairs: VectorPairs,
    found: Collected,
    unit: bool,
    n_components: int | None,
    say: Say | None = None,
    at_most: bool = False,
) -> PairAlignment:
    """Choose the best codes from the moments and held-out pairs that one pass collected."""
    say = say or (lambda line: None)
    two_spaces = _two_maps(pairs)
    longest = _longest(pairs, found, two_spaces, n_components, say, at_most)
    if pairs.series is not None:
        return slow_modes(found, longest, reversible=pairs.series.reversible, unit=unit, pairs=pairs.count)
    best, scores = choose(
        found.fit, found.held_out, found.judge, n_components=longest, two_spaces=two_spaces, rows=found.rows
    )
    left, right = best.maps
    return PairAlignment(
        left, right, best.name, best.centred, unit, scores, pairs=pairs.count, held_out=len(found.judge.queries)
    )


def one_norm(pairs: VectorPairs) -> bool:
    """Tell whether all rows have about the same norm, so that scaling changes nothing; raise if norms overflow."""
    same = True
    for side in (pairs.left, pairs.right):
        rows = side.take(np.linspace(0, len(side) - 1, min(len(side), _SAMPLED_NORMS)).astype(np.int64))
        with np.errstate(over="ignore"):
            norms = np.linalg.norm(rows.astype(np.float64), axis=1)
        if not np.isfinite(norms).all():
            raise EigenmapError(f"{side.name} contains numbers too large to compute with; scale them down.")
        # Beside a large mean, nearly equal norms may be a good part of what distinguishes rows.
        spread = float(np.sqrt(rows.var(axis=0, dtype=np.float64).sum()))
        same = same and bool(norms.std() <= min(_ONE_NORM * norms.mean(), _OF_SPREAD * spread))
    return same


def _longest(pairs: VectorPairs, found: Collected, two_spaces: bool, asked: int | None, say: Say, at_most: bool) -> int:
    """Return the number of features; raise if more were requested than the rank allows."""
    sides = found.fit.sides()
    ranks = [(pairs.left, sides.C)] + ([(pairs.right, sides.C_plus)] if two_spaces else [])
    possible, notes = [], []
    for vectors, C in ranks:
        constant = int((C.diagonal() <= 0).sum())
        if constant == vectors.n_features:
            raise EigenmapError(f"All rows of {vectors.name} are the same, so there is nothing to learn.")
        possible.append(rank(C))
        if constant:
            notes.append(
                f"{constant:,} of the {vectors.n_features:,} features of {vectors.name} are constant and are ignored."
            )
        if possible[-1] + constant < vectors.n_features:
            notes.append(f"The rank of {vectors.name} is {possible[-1]:,}, below its {vectors.n_features:,} features.")
    most = min(possible)
    if at_most and asked is not None:
        asked = min(whole_number(asked, "n_components"), most)
    if asked is not None and whole_number(asked, "n_components") > most:
        raise EigenmapError(f"n_components is {asked:,}, but the vectors have rank {most:,}: use at most {most:,}.")
    for line in notes:
        say(line)
    return min(most, LONGEST) if asked is None else asked
