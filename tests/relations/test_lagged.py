"""Pairs of a time series: which rows belong together, and which stretches are held out."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenmap import EigenmapError
from eigenmap.data.vectors.trajectories import Trajectory, load_trajectories
from eigenmap.relations.lagged import lagged
from tests.relations.test_pairs import ends, vectors


def stretches(rows: list[int]) -> int:
    """How many runs of consecutive numbers there are."""
    return 1 + sum(b - a > 1 for a, b in pairwise(sorted(rows)))


def test_a_short_series_gives_up_its_last_rows() -> None:
    pairs = lagged(vectors(), 3)
    assert {j - i for i, j in ends(pairs.fit) | ends(pairs.held_out)} == {3}
    assert max(j for _, j in ends(pairs.fit)) < min(i for i, _ in ends(pairs.held_out))
    assert max(j for _, j in ends(pairs.held_out)) == 199


def test_files_named_by_text_are_one_trajectory_each(tmp_path: Path) -> None:
    names = [str(tmp_path / f"{name}.npy") for name in "ab"]
    for name, rows in zip(names, (5, 7), strict=True):
        np.save(name, np.ones((rows, 3)))
    assert [one.length for one in load_trajectories(names)] == [5, 7]
    assert [one.length for one in load_trajectories([[1.0, 2.0], [3.0, 4.0]])] == [2]


def test_a_long_series_gives_up_stretches_and_no_pair_reaches_into_them() -> None:
    pairs = lagged(vectors(4000), 3)
    held = {row for pair in ends(pairs.held_out) for row in pair}
    assert held.isdisjoint(row for pair in ends(pairs.fit) for row in pair)
    assert stretches(sorted(held)) == 5 and len(held) == 400 and max(held) == 3999
    assert {j - i for i, j in ends(pairs.fit) | ends(pairs.held_out)} == {3}


def test_of_many_trajectories_whole_ones_are_held_out() -> None:
    series = [Trajectory(vectors(100, seed=k), 0, 100) for k in range(10)]
    pairs = lagged(series, 5)
    assert len(pairs.held_out) == 1 and len(pairs.fit) == 9
    assert all(len(part) == 95 for part in [*pairs.fit, *pairs.held_out])
    assert not any(part.left is pairs.held_out[0].left for part in pairs.fit)
    assert lagged(series, 5, seed=1).held_out[0].left is not pairs.held_out[0].left


def test_no_pair_crosses_a_boundary_inside_a_file() -> None:
    found = load_trajectories(vectors(200), [60, 90, 50])
    pairs = lagged(found, 4)
    which = np.repeat([0, 1, 2], [60, 90, 50])
    every = ends(pairs.fit) | ends(pairs.held_out)
    assert every and all(which[i] == which[j] and j - i == 4 for i, j in every)


def test_forward_in_time_there_are_two_spaces() -> None:
    assert lagged(vectors(), 3, reversible=False).two_spaces
    assert not lagged(vectors(), 3).two_spaces


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda x: lagged(x, 0), "lag"),
        (lambda x: lagged(x, 90), "200 rows are too few for a lag of 90"),
        (lambda x: lagged(load_trajectories(x, [40] * 5), 50), "at most 40 rows are too few for a lag of 50"),
        (lambda x: lagged(load_trajectories(x, [150, 50]), 80), "at most 150 rows"),
    ],
)
def test_series_that_are_too_short_are_refused(make: Any, says: str) -> None:
    with pytest.raises(EigenmapError, match=says):
        make(vectors())


def test_trajectories_shorter_than_the_lag_do_not_count() -> None:
    """A long one among a few that are too short is divided as if it were alone."""
    long = Trajectory(vectors(2000), 0, 2000)
    short = [Trajectory(vectors(4, seed=k), 0, 4) for k in range(1, 6)]
    pairs, alone = lagged([*short, long], 5), lagged([long], 5)
    assert ends(pairs.fit) == ends(alone.fit) and ends(pairs.held_out) == ends(alone.held_out)
