"""Implied timescales against definitions, deeptime's conventions and known rates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eigenmap as em
from eigenmap import EigenmapError
from eigenmap.data.vectors import trajectories, vectors
from eigenmap.linear import timescales
from tests.linear.dynamics import DECAYS, autoregressive, rotating, tica


def test_eigenvalues_are_those_of_tica() -> None:
    x = autoregressive(1500)
    found = em.implied_timescales(x, [3, 1], 8)
    assert found.lags == (1, 3)
    for row, lag in enumerate(found.lags):
        # The smallest ones are within the noise, where neighbours are averaged.
        np.testing.assert_allclose(found.eigenvalues[row, :2], tica(x, lag)[:2], atol=1e-8)
    np.testing.assert_allclose(
        found.timescales[:, 0], -np.array([1, 3]) / np.log([tica(x, 1)[0], tica(x, 3)[0]]), rtol=1e-8
    )


SENSORS = autoregressive(800, 4)
UNITS = st.lists(st.integers(-9, 9), min_size=4, max_size=4).map(lambda powers: 10.0 ** np.array(powers))


@settings(max_examples=20, deadline=None)
@given(units=UNITS, spreads=st.integers(0, 7), reversible=st.booleans())
def test_units_and_offsets_of_sensors_change_nothing(units: np.ndarray, spreads: int, reversible: bool) -> None:
    """Pressure in pascal beside humidity as a fraction, or means of 10 million standard deviations."""
    expected = em.implied_timescales(SENSORS, [1, 5], 4, reversible=reversible).eigenvalues
    found = em.implied_timescales((SENSORS + 10.0**spreads) * units, [1, 5], 4, reversible=reversible).eigenvalues
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_known_rates_are_found_at_every_lag() -> None:
    found = em.implied_timescales(autoregressive(40_000), [1, 2, 4], 3)
    np.testing.assert_allclose(found.timescales[:, :2], np.tile(-1 / np.log(DECAYS[:2]), (3, 1)), rtol=0.1)
    np.testing.assert_allclose(found.timescales[0, 2], -1 / np.log(DECAYS[2]), rtol=0.1)


def test_a_rotation_has_complex_eigenvalues_forward_in_time() -> None:
    found = em.implied_timescales(rotating(20_000), 1, reversible=False)
    np.testing.assert_allclose(found.eigenvalues[0], [0.95, 0.95], atol=0.01)
    both_ways = em.implied_timescales(rotating(20_000), 1)
    np.testing.assert_allclose(both_ways.eigenvalues[0], 0.95 * np.cos(0.3), atol=0.01)


def test_blocks_and_files_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data beyond memory: one pass, block by block, over a memory map."""
    x = autoregressive(1000)
    whole = em.implied_timescales(x, [1, 7, 90])
    np.save(tmp_path / "x.npy", x)
    for room in (trajectories, vectors, timescales):
        monkeypatch.setattr(room, "BLOCK", 64)
    windows = trajectories.TimeSeries.windows
    monkeypatch.setattr(trajectories.TimeSeries, "windows", lambda self, ahead: windows(self, ahead, 64))
    parts = em.implied_timescales(tmp_path / "x.npy", [1, 7, 90])
    np.testing.assert_allclose(parts.eigenvalues, whole.eigenvalues, atol=1e-10)


def test_no_pair_crosses_from_one_trajectory_into_the_next() -> None:
    x = autoregressive(900)
    parts = [x[:300], x[300:500], x[500:]]
    found = em.implied_timescales(parts, 5, 8)
    divided = em.implied_timescales(x, 5, 8, trajectories=[300, 200, 400])
    np.testing.assert_allclose(found.eigenvalues, divided.eigenvalues, atol=1e-10)
    a, b = np.vstack([part[:-5] for part in parts]), np.vstack([part[5:] for part in parts])
    both = np.vstack([a, b]) - np.vstack([a, b]).mean(0)
    n = len(a)
    C = both.T @ both / (2 * n)
    A = both[:n].T @ both[n:] / n
    wanted = np.sort(np.linalg.eigvals(np.linalg.solve(C, (A + A.T) / 2)).real)[::-1]
    np.testing.assert_allclose(found.eigenvalues[0, 0], wanted[0], atol=1e-8)


def test_a_mode_without_a_positive_eigenvalue_has_no_timescale() -> None:
    found = timescales.Timescales((2,), np.array([[0.5, 0.0, -0.3, 1.0]]))
    np.testing.assert_allclose(found.timescales, [[-2 / np.log(0.5), np.nan, np.nan, np.nan]])
    again = timescales.Timescales.from_json(found.as_json())
    np.testing.assert_array_equal(again.eigenvalues, found.eigenvalues)
    assert found.as_json()["timescales"]["2"][1] is None


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: em.implied_timescales(x, []), "lags is empty"),
        (lambda x: em.implied_timescales(x, [0]), "lags .*0"),
        (lambda x: em.implied_timescales(x, 1.5), "lags .*1.5"),
        (lambda x: em.implied_timescales(x, 195), "5 pairs of rows 195 apart"),
        (lambda x: em.implied_timescales(x, 1, ridge=-1), "ridge .*-1"),
        (lambda x: em.implied_timescales(x, 1, trajectories=[100, 99]), "199 rows.*X has 200"),
        (lambda x: em.implied_timescales(x, 1, trajectories=[1.5]), "trajectories .*whole numbers"),
        (lambda x: em.implied_timescales([x, x[:, :2]], 1), r"X\[1\] has 2 numbers"),
        (lambda x: em.implied_timescales([x, x], 1, trajectories=[200]), "trajectories divides"),
        (lambda x: em.implied_timescales(np.where(x > 9, np.nan, x), 1), "Row .* NaN"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(call: Any, says: str) -> None:
    with pytest.raises(EigenmapError, match=says):
        call(autoregressive(200, shift=8.0))


@pytest.mark.parametrize("reversible", [True, False])
def test_rows_that_are_all_the_same_have_no_modes(reversible: bool) -> None:
    with pytest.raises(EigenmapError, match="All rows of the time series are the same"):
        em.implied_timescales(np.ones((60, 2)), [1], reversible=reversible)
