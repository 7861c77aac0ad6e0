"""The closed form and its held-out choice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import eigenmap as em
from eigenmap import EigenmapError
from eigenmap.data.vectors.vectors import Vectors
from eigenmap.linear.align_pairs import align_pairs, solve
from eigenmap.linear.choice import SLACK, PairAlignment, shortest
from eigenmap.linear.collect import agreed
from eigenmap.linear.finding import judged_lengths
from eigenmap.relations.lagged import lagged
from eigenmap.relations.pairs import indexed, labelled, mutual_neighbours, second, views
from tests.linear.planted import planted, two_spaces
from tests.linear.test_moments import sums


def assert_not_beaten(found: PairAlignment) -> None:
    """Assert that no reported length is worse than the better of PCA and prefix."""
    ours, simple = found.scores["ours"], [found.scores[name] for name in ("pca", "prefix")]
    floor = max(simple, key=lambda scores: np.mean([scores[d] for d in judged_lengths(max(scores))]))
    assert all(ours[d] >= floor[d] - SLACK for d in ours if d in floor)


def test_a_planted_signal_is_found_where_pca_sees_noise() -> None:
    found = align_pairs(*planted(), n_components=16)
    assert found.winner == "pairs"
    assert found.scores["ours"][8] > 0.5 > 0.2 > found.scores["pca"][8]
    assert float(found.correlations[5]) > 0.7 > 0.3 > float(found.correlations[6])
    assert found.suggest_dim(0.95) == 8
    assert_not_beaten(found)


def test_vectors_that_are_best_as_they_are_stay_so() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 16)) * np.linspace(2, 0.5, 16)
    found = align_pairs(x, x + 0.05 * rng.normal(size=x.shape))
    assert_not_beaten(found)


@pytest.mark.parametrize("seed", range(3))
def test_pairs_of_noise_are_never_worse_than_pca_on_held_out_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert_not_beaten(align_pairs(rng.normal(size=(400, 12)), rng.normal(size=(400, 12)), seed=seed))


def test_two_spaces_have_a_map_each_and_sorted_correlations() -> None:
    x, y = two_spaces(2000)
    found = em.align_pairs(x, y)
    assert found.left.rotation.shape == (20, 12) and found.right.rotation.shape == (12, 12)
    np.testing.assert_allclose(found.correlations[:4], [0.95, 0.8, 0.6, 0.3], atol=0.15)
    assert (np.diff(found.correlations.numpy()) <= 0).all()
    assert set(found.scores) == {"ours"}
    # The maps find the partners of new rows, as their scores say.
    x, y = (torch.from_numpy(side) for side in two_spaces(2000))
    left, right = found.left.apply(x[:300]), found.right.apply(y[:300])
    assert float(((left @ right.T).argmax(1) == torch.arange(300)).double().mean()) > 0.03


def test_two_spaces_may_have_any_units_and_offsets() -> None:
    """Of old, small features were lost, and rows far from 0 were said to be all the same."""
    x, y = two_spaces(1000)
    sensors = x[:, :3] * [1e-5, 1e5, 1.0] + [1e3, 0.0, 1e7]
    found = em.align_pairs(sensors, y, unit=False)
    assert found.n_components == 3
    assert float(found.correlations.min()) > 0.05
    np.testing.assert_allclose((found.left.mean.numpy() - sensors.mean(0)) / sensors.std(0), 0.0, atol=0.1)


def test_rows_far_from_0_are_scaled_only_if_that_finds_more() -> None:
    """Of old, they were scaled unasked, since their norms are nearly equal, and lost the direction of the mean."""
    x, noise = np.random.default_rng(0).normal(size=(2, 1500, 3))
    x, y = x + 100, 0.9 * x + 0.4 * noise + 100
    plain, scaled = (em.align_pairs(x, y, unit=unit) for unit in (False, True))
    assert plain.quality > scaled.quality + 0.01
    assert not em.align_pairs(x, y).unit


def test_the_choice_does_not_depend_on_the_size_of_vectors() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6)) * rng.lognormal(size=(400, 1))
    y = 0.8 * x + 0.6 * rng.normal(size=x.shape)
    plain = em.align_pairs(x, y)
    for size in (2.0**-90, 2.0**40):
        found = em.align_pairs(x * size, y * size)
        assert (found.winner, found.unit, found.left.t, found.scores) == (
            plain.winner,
            plain.unit,
            plain.left.t,
            plain.scores,
        )


def test_float16_gives_nearly_the_same_codes() -> None:
    x, y = planted()
    full, half = (align_pairs(x.astype(kind), y.astype(kind), 16) for kind in (np.float32, np.float16))
    assert abs(full.quality - half.quality) < 0.02


@pytest.mark.parametrize("offset", [0, 30])
def test_agreement_with_a_second_model_is_its_regression(offset: float) -> None:
    x, z = two_spaces(800)
    z = z + offset
    fit, held = agreed(sums(x, z), sums(x[:200], z[:200]))
    z1 = np.hstack([z, np.ones((800, 1))])
    S = z1.T @ z1 / 800
    S[:-1, :-1] += 0.01 * z.var(0).mean() * np.eye(12)
    said = z1[:200] @ np.linalg.solve(S, z1.T @ x / 800)
    np.testing.assert_allclose(held.across[:-1, :-1] / 200, x[:200].T @ said / 200, atol=1e-8)
    assert fit.n_features == 20


def test_a_second_model_brings_forward_what_both_see() -> None:
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(1500, 4))
    x = np.hstack([3 * rng.normal(size=(1500, 12)), signal])
    z = signal @ rng.normal(size=(4, 9)) + 0.1 * rng.normal(size=(1500, 9))
    found = solve(second(Vectors(x), Vectors(z)))
    assert found.winner == "pairs" and found.left.rotation.shape[0] == 16
    assert found.scores["ours"][8] > found.scores["pca"][8] + 0.2
    assert_not_beaten(found)


def test_a_slow_coordinate_comes_first_under_a_lag() -> None:
    rng = np.random.default_rng(0)
    slow = np.zeros(3000)
    for t in range(1, 3000):
        slow[t] = 0.98 * slow[t - 1] + rng.normal() * np.sqrt(1 - 0.98**2)
    x = np.stack([5 * rng.normal(size=3000), slow, 3 * rng.normal(size=3000)], 1)
    found = solve(lagged(Vectors(x), 1), unit=False)
    first = found.left.rotation[:, 0].abs()
    assert int(first.argmax()) == 1 and float(found.correlations[0]) > 0.9


def test_labels_bring_forward_what_tells_classes_apart() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 1000)
    x = np.hstack([4 * rng.normal(size=(1000, 10)), np.eye(5)[labels] + 0.3 * rng.normal(size=(1000, 5))])
    found = solve(labelled(Vectors(x), labels))
    assert found.winner == "pairs" and found.scores["ours"][8] > found.scores["pca"][8] + 0.2


@pytest.mark.parametrize("count", [1, 2, 3])
def test_views_that_find_each_other_score_fully(count: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 8))
    others = [Vectors(x + 1e-3 * rng.normal(size=x.shape)) for _ in range(count)]
    found = solve(views(Vectors(x), others))
    assert all(found.scores[name][8] > 0.999 for name in ("ours", "pca", "prefix"))
    assert found.held_out == (40 if count == 1 else 40 * (1 + count))


@pytest.mark.parametrize("partners", [5, 49])
def test_index_pairs_of_whole_groups_score_fully(partners: int) -> None:
    rng = np.random.default_rng(0)
    group = np.arange(4_000) % (4_000 // (partners + 1))
    centres = rng.normal(size=(group.max() + 1, 8))
    x = Vectors(centres[group] + 1e-3 * rng.normal(size=(4_000, 8)))
    every = np.argwhere((group[:, None] == group) & ~np.eye(4_000, dtype=bool))
    found = solve(indexed(x, rng.permutation(every)))
    assert all(found.scores[name][8] > 0.99 for name in ("ours", "pca", "prefix"))
    assert found.held_out == 400


def test_codes_are_those_of_a_model(tmp_path: Path) -> None:
    x, y = planted(600)
    for unit in (True, False):
        found = align_pairs(x, y, 8, unit=unit)
        model = em.fit_vectors(x, 8, pairs=y, unit=unit, progress=False)
        np.testing.assert_allclose(found.encode(x[:50], dim=4), model.encode(x[:50], dim=4), atol=1e-6)
        assert 4 <= model.suggest_dim(recall=1.0) <= 8
    turned = align_pairs(*two_spaces(600))
    assert turned.encode(two_spaces(5)[1], side="right").shape == (5, 12)
    with pytest.raises(EigenmapError, match="dim"):
        found.encode(x, dim=9)


def test_the_same_seed_gives_the_same_map() -> None:
    first, again = (align_pairs(*planted(600), 8) for _ in range(2))
    assert torch.equal(first.left.rotation, again.left.rotation) and first.scores == again.scores


def test_rank_and_constant_features_are_reported() -> None:
    x, y = planted(600)
    x[:, 3] = y[:, 3] = 2.0
    x[:, 5], y[:, 5] = x[:, 4], y[:, 4]
    said: list[str] = []
    assert align_pairs(x, y, unit=False, say=said.append).n_components == 22
    assert any("1 of the 24" in line for line in said) and any("is 22" in line for line in said)
    with pytest.raises(EigenmapError, match="at most 22"):
        align_pairs(x, y, 23, unit=False)


def test_too_few_pairs_and_constant_vectors_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(EigenmapError, match=r"54 .*pairs .* 100 features"):
        align_pairs(rng.random((70, 100)), rng.random((70, 100)))
    with pytest.raises(EigenmapError, match="All rows of X are the same"):
        align_pairs(np.ones((70, 3)), rng.random((70, 3)), two_spaces=True)


@pytest.mark.parametrize("unit", [None, True, False])
def test_numbers_whose_squares_overflow_are_refused_by_name(unit: bool | None) -> None:
    x, y = planted(600)
    with pytest.raises(EigenmapError, match="Y contains numbers too large"):
        align_pairs(x, y.astype(np.float64) * 1e200, unit=unit)


def test_the_shortest_length_keeps_its_share_from_there_on() -> None:
    scores = {8: 0.4, 16: 0.96, 32: 0.9, 64: 0.97, 128: 1.0}
    assert shortest(scores, 0.95) == 64 and shortest(scores, 0.9) == 16 and shortest(scores, 1.0) == 128
    with pytest.raises(EigenmapError, match="keep"):
        shortest(scores, 1.5)


def test_without_labels_plain_components_are_those_of_all_rows() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(900, 12)) * np.linspace(4, 1, 12)
    rows[:300] += 6 * np.eye(12)[11]
    rows[:300, :6] *= 0.1  # crowded: rows with more mutual neighbours, in other directions than the rest
    rows = (rows @ np.linalg.qr(rng.normal(size=(12, 12)))[0]).astype(np.float32)
    rows -= rows.mean(0)
    found = solve(mutual_neighbours(Vectors(rows), 20), unit=False)
    assert found.winner == "pca" and found.centred
    axes = np.linalg.svd(rows.astype(np.float64), full_matrices=False)[2]
    np.testing.assert_allclose(np.abs(axes @ found.left.rotation.numpy()), np.eye(12), atol=1e-4)


def test_without_labels_a_small_lead_on_held_out_neighbours_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(600, 4))
    x = np.hstack([3 * rng.normal(size=(600, 12)), signal])
    pairs = second(Vectors(x), Vectors(signal @ rng.normal(size=(4, 9))))
    assert solve(pairs).winner == "pairs"
    monkeypatch.setattr("eigenmap.linear.choice.UNLABELLED_GAIN", 0.9)
    assert solve(pairs).winner in ("pca", "prefix")


def test_without_labels_rows_are_scaled_only_if_that_finds_far_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    pairs = mutual_neighbours(Vectors(rng.normal(size=(400, 6)) * rng.uniform(0.8, 1.2, (400, 1))), 10)
    assert not solve(pairs).unit
    monkeypatch.setattr("eigenmap.linear.align_pairs.UNLABELLED_GAIN", -1.0)
    assert solve(pairs).unit
