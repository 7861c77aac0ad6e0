"""Lag and implied timescales of a time series, as stored in its model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eigenmap.core.errors import EigenmapError
from eigenmap.data.vectors.trajectories import TimeSeries, checked_lag
from eigenmap.linear.choice import PairAlignment
from eigenmap.linear.collect import Both, Outputs
from eigenmap.linear.timescales import FEWEST_PAIRS, MODES, Timescales, timescales_at
from eigenmap.model import Eigenmap

MULTIPLES = (1, 2, 4)
"""Multiples of the lag at which timescales are listed by default."""


def checked_lags(lags: Iterable[int] | None, lag: int | None) -> tuple[int, ...]:
    """Return the lags at which to list timescales, including that of the fit; empty for the default ones."""
    if lags is None:
        return ()
    if lag is None:
        raise EigenmapError("lags=, trajectories= and reversible= need lag=.")
    try:
        every = list(lags)
    except TypeError:
        raise EigenmapError(f"lags must be whole numbers, such as [1, 2, 5, 10], not {lags!r}.") from None
    return tuple(sorted({checked_lag(lag), *(checked_lag(one, "lags") for one in every)}))


def time_facts(
    series: TimeSeries, found: PairAlignment, lags: tuple[int, ...], output: Outputs | None = None
) -> dict[str, Any]:
    """Return the lag, the number of trajectories, and eigenvalues and timescales by lag."""
    usual = [multiple * series.lag for multiple in MULTIPLES if multiple == 1 or _enough(series, found, multiple)]
    made = timescales_at(
        series,
        lags or usual,
        min(MODES, found.n_components),
        found.left.ridge,
        output or Both.plain(found.unit).left,
    )
    return {
        "lag": series.lag,
        "reversible": series.reversible,
        "trajectories": len(series.trajectories),
        **made.as_json(),
    }


def timescales_of(model: Eigenmap) -> Timescales | None:
    """Return the implied timescales stored in a model of a time series; None for any other model."""
    about = model.training.get("vectors", {})
    told = about.get("time") if isinstance(about, dict) else None
    if not isinstance(told, dict):
        return None
    try:
        return Timescales.from_json(told)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise EigenmapError("The timescales stored in the model are damaged; fit it again.") from None


def _enough(series: TimeSeries, found: PairAlignment, multiple: int) -> bool:
    return series.pairs(multiple * series.lag) >= max(FEWEST_PAIRS * found.left.rotation.shape[0], 2)
