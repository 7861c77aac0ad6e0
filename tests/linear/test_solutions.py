"""Closed-form solutions against scipy and against an independent canonical correlation analysis."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch

from eigenmap import EigenmapError
from eigenmap.linear.moments import PairMoments
from eigenmap.linear.solutions import canonical, exact, judged_maps, prefix, principal, rank
from eigenmap.spectrum import align
from tests.linear.planted import canonical_correlations, planted, two_spaces
from tests.linear.test_moments import sums


def test_canonical_correlations_are_those_of_an_independent_reference() -> None:
    x, y = two_spaces()
    moments = sums(x, y)
    maps = canonical(moments, moments)
    reference = canonical_correlations(x, y)
    np.testing.assert_allclose(maps.left.eigenvalues, reference, atol=1e-9)
    assert (np.diff(maps.left.eigenvalues.numpy()) <= 1e-12).all()
    u = maps.left.apply(torch.from_numpy(x), t=0.0, unit=False).numpy()
    v = maps.right.apply(torch.from_numpy(y), t=0.0, unit=False).numpy()
    np.testing.assert_allclose(u.T @ v / len(x), np.diag(reference), atol=1e-8)
    np.testing.assert_allclose(u.T @ u / len(x), np.eye(12), atol=1e-8)


def test_without_a_ridge_correlations_do_not_depend_on_units() -> None:
    x, y = two_spaces()
    units = np.logspace(-8, 8, 20)
    maps = exact(x * units, y / 1e6 + 1)
    np.testing.assert_allclose(maps.left.eigenvalues, canonical_correlations(x, y), atol=1e-9)
    assert rank(sums(x * units, y).sides().C) == 20
    twice = np.hstack([x * units, x[:, :3] - x[:, 3:6]])  # features made of others still add no direction
    assert exact(twice, y).left.n_components == 12 and rank(sums(twice, y).sides().C) == 20


def test_a_ridge_solves_the_regularised_problem() -> None:
    x, y = two_spaces()
    moments, gamma = sums(x, y), 0.1
    s = moments.sides()
    Cx = s.C.numpy() + gamma * s.C.diagonal().mean().item() * np.eye(20)
    Cy = s.C_plus.numpy() + gamma * s.C_plus.diagonal().mean().item() * np.eye(12)
    A = s.A.numpy()
    _, vectors = scipy.linalg.eigh(A @ np.linalg.solve(Cy, A.T), Cx)
    wanted = vectors[:, ::-1][:, :4]
    found = canonical(moments, moments, gamma).left.rotation.numpy()
    # A ridge may change the order by held-out correlation, so compare the spaces.
    angle = scipy.linalg.subspace_angles(wanted, found[:, :4])
    assert np.max(angle) < 1e-6


def test_a_map_that_ignores_a_feature_keeps_its_partner() -> None:
    """`linear.into` finds the order of the features by their partners; stored weights may be zero."""
    x, y = two_spaces()
    moments = sums(x[:, :3], y[:, :3])
    left = torch.eye(3, dtype=torch.float64)
    left[0, 0] = 0.0
    right = judged_maps(moments.sides(), left, torch.eye(3, dtype=torch.float64), moments).right.rotation
    assert sorted(right.abs().argmax(0).tolist()) == [0, 1, 2] and bool((right.abs().sum(0) == 1).all())


def test_planted_correlations_are_found_on_fresh_pairs() -> None:
    fit, fresh = (sums(*two_spaces(20_000, seed=0)), sums(*two_spaces(20_000, seed=0)))
    np.testing.assert_allclose(canonical(fit, fresh).left.eigenvalues[:4], [0.95, 0.8, 0.6, 0.3], atol=0.02)


def test_in_one_space_the_map_solves_the_symmetric_eigenproblem() -> None:
    x, y = planted()
    moments = sums(x, y)
    C, A = (m.numpy() for m in moments.about(moments.mean()))
    mu = scipy.linalg.eigh(A, C, eigvals_only=True)[::-1]
    np.testing.assert_allclose(align(moments, moments).eigenvalues[:6], mu[:6], atol=1e-9)


def test_principal_components_are_those_of_an_svd() -> None:
    x, y = planted()
    moments = sums(x, y)
    both = np.vstack([x, y]).astype(np.float64)
    _, s, directions = np.linalg.svd(both - both.mean(0), full_matrices=False)
    found = principal(moments, moments)
    np.testing.assert_allclose(np.abs((directions @ found.rotation.numpy()).diagonal()), 1, atol=1e-6)
    np.testing.assert_allclose(found.power, s**2 / len(both), rtol=1e-6)
    white = principal(moments, moments, whitened=1.0)
    np.testing.assert_allclose(white.power, 1, rtol=1e-6)


def test_the_prefix_changes_nothing() -> None:
    x, y = planted()
    rows = torch.from_numpy(x)
    torch.testing.assert_close(prefix(sums(x, y)).apply(rows, unit=False), rows)


def test_rank_counts_directions_and_constant_vectors_are_refused() -> None:
    x, y = planted()
    x[:, 5] = x[:, 4]
    x[:, 6] = 1.0
    assert rank(sums(x, y).sides().C) == 22
    with pytest.raises(EigenmapError, match="constant"):
        moments = PairMoments(3).update(torch.ones(9, 3), torch.ones(9, 3))
        canonical(moments, moments)
