"""Pairs of a time series: row t belongs to row t + lag of the same trajectory.

If there are enough trajectories, entire ones are held out; otherwise some stretches of consecutive rows of each. Rows
close in time resemble each other, so held-out pairs drawn at random would not be an independent test.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eigenmap.core.errors import EigenmapError
from eigenmap.data.vectors.trajectories import TimeSeries, Trajectory, checked_lag
from eigenmap.data.vectors.vectors import Vectors
from eigenmap.relations.pairs import FEWEST_HELD, HELD_SHARE, Part, Rows, VectorPairs

ENOUGH_TRAJECTORIES = 5
"""Minimum number of trajectories longer than the lag for holding out entire ones."""
STRETCHES, STRETCH_LAGS = 5, 4
"""Held-out stretches per trajectory; fewer if they would be shorter than `FEWEST_HELD` rows and `STRETCH_LAGS` lags."""


def lagged(
    trajectories: Sequence[Trajectory] | Vectors, lag: int, seed: int = 0, *, reversible: bool = True
) -> VectorPairs:
    """Pair row t with row t + lag; with `reversible=False`, each end has its own map."""
    if isinstance(trajectories, Vectors):
        trajectories = [Trajectory(trajectories, 0, len(trajectories))]
    series = TimeSeries(trajectories, checked_lag(lag), reversible)
    usable = [one for one in trajectories if one.length > series.lag]
    held = _whole(usable, series.lag, seed) if len(usable) >= ENOUGH_TRAJECTORIES else _stretches(series)
    rest = [_without(one, held) for one in trajectories]
    fit = _parts(series, [stretch for each in rest for stretch in each])
    held_out = _parts(series, held)
    if not fit or sum(map(len, held_out)) < FEWEST_HELD:
        _refuse(series)
    return VectorPairs("lag", fit, held_out, two_spaces=not reversible, series=series)


def _whole(usable: Sequence[Trajectory], lag: int, seed: int) -> list[Trajectory]:
    """Return random trajectories with a tenth of all pairs or slightly more."""
    pairs = np.array([one.length - lag for one in usable])
    order = np.random.default_rng(seed).permutation(len(usable))
    enough = int((pairs[order].cumsum() < HELD_SHARE * pairs.sum()).sum()) + 1
    return [usable[k] for k in sorted(order[: min(enough, len(usable) - 1)])]


def _stretches(series: TimeSeries) -> list[Trajectory]:
    """Return a tenth of each trajectory, in evenly spaced stretches; the last one ends with the trajectory."""
    found = []
    for vectors, start, stop in series.trajectories:
        n = stop - start
        shortest = FEWEST_HELD + STRETCH_LAGS * series.lag
        count = min(STRETCHES, max(1, int(HELD_SHARE * n) // shortest))
        length = max(int(HELD_SHARE * n) // count, FEWEST_HELD + series.lag)
        if n < 2 * (length + series.lag):
            continue  # too short to divide: all of it is used for fitting
        ends = [start + n * (k + 1) // count for k in range(count)]
        found += [Trajectory(vectors, end - length, end) for end in ends]
    return found


def _without(one: Trajectory, held: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the pieces of a trajectory that are not held out."""
    pieces, start = [], one.start
    for other in sorted(held, key=lambda each: each.start):
        if other.vectors is one.vectors and one.start <= other.start < one.stop:
            pieces.append(Trajectory(one.vectors, start, other.start))
            start = other.stop
    return [piece for piece in [*pieces, Trajectory(one.vectors, start, one.stop)] if piece.length > 0]


def _parts(series: TimeSeries, stretches: Sequence[Trajectory]) -> list[Part]:
    """Return the pairs inside each stretch, one part per file."""
    rows: dict[int, tuple[Vectors, list[Rows]]] = {}
    for vectors, start, stop in stretches:
        if stop - start > series.lag:
            rows.setdefault(id(vectors), (vectors, []))[1].append(np.arange(start, stop - series.lag))
    return [
        Part(vectors, vectors, first, first + series.lag)
        for vectors, found in rows.values()
        for first in (np.concatenate(found),)
    ]


def _refuse(series: TimeSeries) -> None:
    needed = 2 * (FEWEST_HELD + 2 * series.lag)
    found = f"{series.rows:,} rows" if len(series.trajectories) == 1 else "Trajectories of at most "
    if len(series.trajectories) > 1:
        found += f"{max(one.length for one in series.trajectories):,} rows"
    raise EigenmapError(f"{found} are too few for a lag of {series.lag:,}; give at least {needed:,} consecutive rows.")
