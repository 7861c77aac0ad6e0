"""Slow modes: VAMP-2 by its definition, TICA and VAMP on known dynamics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

import eigenmap as em
from eigenmap import EigenmapError
from eigenmap.data.vectors.trajectories import Trajectory
from eigenmap.data.vectors.vectors import Floats, Vectors
from eigenmap.linear.align_pairs import solve
from eigenmap.linear.collect import MOST_JUDGED, Both, judge_of
from eigenmap.linear.slow import vamp2_of
from eigenmap.relations.lagged import lagged
from tests.linear.dynamics import DECAYS, autoregressive, rotating
from tests.linear.planted import canonical_correlations


def test_vamp2_is_one_plus_the_squared_canonical_correlations() -> None:
    x = autoregressive(500)
    wanted = 1 + (canonical_correlations(x[:-2], x[2:]) ** 2).sum()
    assert vamp2_of(x[:-2], x[2:]) == pytest.approx(wanted, abs=1e-9)
    twice = np.hstack([x, x])  # a span has one score, whatever its basis
    assert vamp2_of(twice[:-2], twice[2:]) == pytest.approx(wanted, abs=1e-6)
    with pytest.raises(EigenmapError, match=r"rows.*\(498, 8\) and \(500, 8\)"):
        vamp2_of(x[:-2], x)


def test_modes_come_in_the_order_of_their_decay() -> None:
    x = autoregressive(20_000)
    found = solve(lagged(Vectors(x), 1))
    np.testing.assert_allclose(found.correlations[:3], DECAYS, atol=0.02)
    assert found.metric == "vamp-2" and found.winner == "pairs" and not found.unit
    ours, pca, prefix = (found.scores[name] for name in ("ours", "pca", "prefix"))
    assert list(ours) == [1, 2, 3, 4, 6, 8]
    assert all(ours[d] > max(pca[d], prefix[d]) + 0.2 for d in (1, 2, 3))
    assert ours[3] == pytest.approx(1 + (DECAYS**2).sum(), abs=0.1)


def test_held_out_scores_are_those_of_held_out_rows() -> None:
    x = autoregressive(3000)
    pairs = lagged(Vectors(x), 2)
    found = solve(pairs)
    held = np.concatenate([part.i for part in pairs.held_out])
    assert found.scores["prefix"][2] == pytest.approx(vamp2_of(x[held, :2], x[held + 2, :2]), abs=1e-9)
    assert found.held_out == len(held)


def test_forward_in_time_each_end_has_a_map() -> None:
    x = np.hstack([rotating(8000), 3 * np.random.default_rng(1).normal(size=(8000, 2))])
    both, forward = (solve(lagged(Vectors(x), 1, reversible=way)) for way in (True, False))
    assert forward.left is not forward.right and both.left is both.right
    np.testing.assert_allclose(forward.correlations[:2], 0.95, atol=0.02)
    np.testing.assert_allclose(both.correlations[:2], 0.95 * np.cos(0.3), atol=0.02)
    # What x_t becomes is what it is now, turned by 0.3.
    turn = forward.right.rotation[:2, :2].numpy() @ np.linalg.inv(forward.left.rotation[:2, :2].numpy())
    np.testing.assert_allclose(turn, [[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]], atol=0.03)


def test_lengths_that_held_out_rows_cannot_judge_are_left_out() -> None:
    found = solve(lagged(Vectors(np.random.default_rng(0).normal(size=(3000, 40))), 1))
    assert max(found.scores["ours"]) == 4 and found.n_components == 40  # 10 d^2 <= 295 pairs


def test_queries_of_several_trajectories_read_only_their_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the collection is held out, which may be larger than memory."""
    x = Vectors(autoregressive(60_000))
    pairs = lagged([Trajectory(x, start, start + 1_000) for start in range(0, 30_000, 1_000)], 3)
    more = lagged([Trajectory(Vectors(x.array), start, start + 1_000) for start in range(30_000, 60_000, 1_000)], 3)
    held_out = [*pairs.held_out, *more.held_out]
    read, take = [0], Vectors.take

    def counted(vectors: Vectors, rows: npt.NDArray[np.int64]) -> Floats:
        read[0] += len(rows)
        return take(vectors, rows)

    monkeypatch.setattr(Vectors, "take", counted)
    judge = judge_of(replace(pairs, held_out=held_out), Both.plain(unit=False))
    assert sum(map(len, held_out)) > 2 * MOST_JUDGED
    assert read[0] == 4 * MOST_JUDGED  # both sides, from the trajectories and then from the copy
    every = np.concatenate([part.i for part in held_out])
    chosen = np.linspace(0, len(every) - 1, MOST_JUDGED).astype(np.int64)
    np.testing.assert_array_equal(judge.queries, x.array[every[chosen]])
    np.testing.assert_array_equal(judge.gallery, x.array[every[chosen] + 3])


@pytest.mark.parametrize("reversible", [True, False])
def test_a_slow_feature_of_small_numbers_is_not_lost(reversible: bool) -> None:
    """Of old, variances below a billionth of the largest, and those beside large means, counted as rounding."""
    x = autoregressive(1500, 3)
    sensors = x * [1e3, 1e-2, 1.0] + [1e5, 0.5, 1e7]
    plain, found = (em.fit_vectors(each, lag=3, reversible=reversible) for each in (x, sensors))
    assert found.n_components == plain.n_components == 3
    slowest = [m.encode(rows, 1, normalize=False)[:, 0] for m, rows in ((plain, x), (found, sensors))]
    assert abs(np.corrcoef(slowest)[0, 1]) > 0.99
