"""Moments of pairs from two spaces."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenmap import EigenmapError
from eigenmap.linear.moments import PairMoments
from eigenmap.spectrum import Moments
from tests.linear.planted import planted, two_spaces


def sums(x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> PairMoments:
    given = None if weights is None else torch.from_numpy(weights)
    return PairMoments(x.shape[1], y.shape[1]).update(torch.from_numpy(x), torch.from_numpy(y), given)


def test_sides_are_the_weighted_covariances() -> None:
    x, y = two_spaces(300)
    weights = np.random.default_rng(1).random(300)
    found = sums(x, y, weights).sides()
    stacked = np.cov(np.hstack([x, y]).T, aweights=weights, ddof=0)
    np.testing.assert_allclose(found.C, stacked[:20, :20], atol=1e-9)
    np.testing.assert_allclose(found.C_plus, stacked[20:, 20:], atol=1e-9)
    np.testing.assert_allclose(found.A, stacked[:20, 20:], atol=1e-9)
    np.testing.assert_allclose(found.mean_plus, np.average(y, axis=0, weights=weights))


@settings(max_examples=15)
@given(st.lists(st.integers(1, 299), min_size=0, max_size=6), st.randoms())
def test_sums_of_parts_merge_in_any_order(cuts: list[int], random: object) -> None:
    x, y = two_spaces(300)
    whole = sums(x, y)
    parts = [sums(a, b) for a, b in zip(np.split(x, sorted(cuts)), np.split(y, sorted(cuts)), strict=True) if len(a)]
    random.shuffle(parts)  # type: ignore[attr-defined]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)  # type: ignore[assignment]
    for mine, theirs in zip(merged._tensors(), whole._tensors(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-8)


def test_merging_is_associative() -> None:
    x, y = two_spaces(300)

    def parts() -> list[PairMoments]:
        return [sums(x[s], y[s]) for s in (slice(0, 50), slice(50, 180), slice(180, 300))]

    (a, b, c), (d, e, f) = parts(), parts()
    left, right = a.merge(b).merge(c), d.merge(e.merge(f))
    torch.testing.assert_close(left.across, right.across, rtol=1e-12, atol=1e-9)


def test_in_one_space_it_is_the_usual_moments() -> None:
    x, y = (torch.from_numpy(side) for side in planted(200))
    ours, usual = PairMoments(24).update(x, y), Moments(24).update(x, y)
    for mine, theirs in zip(ours.about(ours.mean()), usual.about(usual.mean()), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_constant_feature_has_no_variance_at_all() -> None:
    x, y = planted(200)
    x[:, 3] = 1e4 / 3
    assert float(sums(x, y).sides().C[3].abs().max()) == 0


def test_no_pairs_are_refused() -> None:
    with pytest.raises(EigenmapError, match="no pairs"):
        PairMoments(3, 4).sides()
