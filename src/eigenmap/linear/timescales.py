r"""Implied timescales: decay times of the slow modes of a time series.

A mode with eigenvalue mu over `lag` rows decays as exp(-t / tau) with

    tau = -lag / ln |mu|        (in rows).

If the modes are well resolved, tau does not depend on the lag; otherwise it grows with the lag [1].

[1] Swope, Pitera, Suits: Describing protein folding kinetics by molecular dynamics simulations, 2004.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eigenmap.core.arguments import is_number, whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.data.vectors.trajectories import TimeSeries, checked_lag, load_trajectories
from eigenmap.data.vectors.vectors import BLOCK
from eigenmap.linear.collect import Outputs
from eigenmap.linear.moments import PairMoments
from eigenmap.linear.solutions import damped_whitening
from eigenmap.spectrum import align

MODES = 5
"""Default number of modes."""
FEWEST_PAIRS = 2
"""Minimum number of pairs per feature at each lag; with fewer, moments are meaningless."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Timescales:
    """Eigenvalues and timescales of the slowest modes, by lag; made by `implied_timescales`.

    Attributes:
        lags: lags in rows, ascending.
        eigenvalues: (lags, modes), descending; moduli if time is not reversible.

    """

    lags: tuple[int, ...]
    eigenvalues: Floats

    @property
    def timescales(self) -> Floats:
        """Timescales (lags, modes) in rows; NaN for a mode without a positive eigenvalue below 1."""
        lag = np.array(self.lags, dtype=np.float64)[:, None]
        mu = self.eigenvalues
        sensible = (mu > 0) & (mu < 1)
        return np.where(sensible, -lag / np.log(np.where(sensible, mu, 0.5)), np.nan)

    def as_json(self) -> dict[str, Any]:
        """Return eigenvalues and timescales by lag, with null for an undefined timescale."""

        def by_lag(values: Floats) -> dict[str, list[float | None]]:
            return {
                str(lag): [float(value) if math.isfinite(value) else None for value in row]
                for lag, row in zip(self.lags, values, strict=True)
            }

        return {"eigenvalues": by_lag(self.eigenvalues), "timescales": by_lag(self.timescales)}

    @classmethod
    def from_json(cls, about: Mapping[str, Any]) -> Timescales:
        """Restore timescales from the values of `as_json`."""
        rows = {int(lag): row for lag, row in about["eigenvalues"].items()}
        lags = tuple(sorted(rows))
        values = [[math.nan if value is None else float(value) for value in rows[lag]] for lag in lags]
        return cls(lags, np.array(values, dtype=np.float64))


def implied_timescales(
    X: object,
    lags: int | Iterable[int],
    n_modes: int = MODES,
    *,
    trajectories: object = None,
    reversible: bool = True,
    ridge: float = 0.0,
) -> Timescales:
    """Compute implied timescales of the slowest linear modes at several lags, in one pass over the rows.

    Args:
        X: rows in temporal order: an .npy file (memory-mapped), an array, or a list with one per trajectory.
        lags: lags in rows.
        n_modes: number of slowest modes.
        trajectories: number of rows of each trajectory, if one file contains several.
        reversible: whether both directions of time count (TICA); otherwise eigenvalues are the moduli of those of the
            forward operator.
        ridge: regularisation, in units of the mean variance of a feature.

    Example:
        >>> found = implied_timescales(x, [1, 2, 5, 10])  # doctest: +SKIP
        >>> found.timescales[:, 0]  # of the slowest mode at each lag  # doctest: +SKIP

    """
    wanted = _checked_lags(lags)
    if not (is_number(ridge) and float(ridge) >= 0):
        raise EigenmapError(f"ridge must be a number of at least 0, not {ridge!r}.")
    series = TimeSeries(load_trajectories(X, trajectories, "X"), wanted[0], reversible)
    return timescales_at(series, wanted, whole_number(n_modes, "n_modes"), float(ridge), torch.from_numpy)


def timescales_at(series: TimeSeries, lags: Sequence[int], n_modes: int, ridge: float, outputs: Outputs) -> Timescales:
    """Compute implied timescales of the outputs of a function of the rows."""
    moments = lag_moments(series, lags, outputs)
    values = [eigenvalues_of(one, ridge, series.reversible)[:n_modes] for one in moments]
    fewest = min(map(len, values))
    return Timescales(tuple(lags), np.stack([each[:fewest] for each in values]))


def lag_moments(series: TimeSeries, lags: Sequence[int], outputs: Outputs) -> list[PairMoments]:
    """Return the moments of the pairs at each lag, about the first row, from one pass over the rows."""
    moments: list[PairMoments] = []
    longest = max(lags)
    origin: Tensor | None = None
    for window in series.windows(longest):
        made = outputs(window)
        if origin is None:
            require_pairs(series, lags, made.shape[1])
            moments, origin = [PairMoments(made.shape[1]) for _ in lags], made[:1].clone()
        made = made - origin  # variances would be lost beside a large mean
        for one, lag in zip(moments, lags, strict=True):
            count = min(BLOCK, len(made) - lag)
            if count > 0:
                one.update(made[:count], made[lag : lag + count])
    return moments


def require_pairs(series: TimeSeries, lags: Sequence[int], n_features: int) -> None:
    """Refuse lags at which there are too few pairs for the moments of so many features."""
    for lag in lags:
        pairs = series.pairs(lag)
        if pairs < max(FEWEST_PAIRS * n_features, 2):
            raise EigenmapError(
                f"There are {pairs:,} pairs of rows {lag:,} apart, too few for {n_features:,} features; "
                "give a shorter lag or more rows."
            )


def eigenvalues_of(moments: PairMoments, ridge: float, reversible: bool) -> Floats:
    """Return the eigenvalues of the transfer operator inside the span of the features, slowest first."""
    if not bool(moments.sides().C.any()):
        raise EigenmapError("All rows of the time series are the same, so it has no modes.")
    if reversible:
        found: Tensor = align(moments, moments, ridge).eigenvalues
    else:
        of = moments.sides()
        W = damped_whitening(of.C, ridge)
        found = torch.linalg.eigvals(W.T @ of.A @ W).abs()  # those of (C + gamma I)^-1 A
    return np.asarray(found.sort(descending=True).values.numpy(), dtype=np.float64)


def _checked_lags(lags: int | Iterable[int]) -> list[int]:
    try:
        every = [lags] if isinstance(lags, int | np.integer) else list(lags)
    except TypeError:
        raise EigenmapError(f"lags must be whole numbers, such as [1, 2, 5, 10], not {lags!r}.") from None
    if not every:
        raise EigenmapError("lags is empty: give at least one whole number, such as [1, 2, 5, 10].")
    return sorted({checked_lag(lag, "lags") for lag in every})
