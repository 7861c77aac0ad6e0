"""Mapping of new vectors into stored codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import eigenmap as em
from eigenmap import EigenmapError
from eigenmap.fitting.vectors import codes_of
from tests.fitting.test_vectors import QUIET, finds
from tests.linear.planted import planted


def old_and_new(n: int = 3000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Titles and texts by an old model, and titles by a new one with the same content in other coordinates."""
    rng = np.random.default_rng(5)
    x, y = planted(n)
    new = np.tanh(x @ rng.normal(size=(24, 40)) / 40) + 0.005 * rng.normal(size=(n, 40))
    return x, y, new


def test_new_queries_find_stored_codes_of_the_old_model(tmp_path: Path) -> None:
    x, y, new = old_and_new()
    old = em.fit_vectors(x[:2500], 12, pairs=y[:2500], out=tmp_path / "old", **QUIET)
    upgraded = em.fit_vectors(new[:2500], pairs=x[:2500], into=tmp_path / "old", out=tmp_path / "new", **QUIET)
    stored = old.encode(y[2500:])
    ours = finds(upgraded.encode(new[2500:]), stored, 8)
    assert ours > 0.6 * finds(old.encode(x[2500:]), stored, 8) > 0.1
    again = em.Eigenmap.load(tmp_path / "new")
    assert codes_of(again) == old.weights_sha256 != again.weights_sha256
    assert codes_of(old) == old.weights_sha256
    assert 0 < again.alignment.quality <= 1
    # A plain regression of the codes is among the candidates, so the choice is at most a little worse.
    code = old.encode(x[:2500], normalize=False)
    slope = np.linalg.lstsq(np.c_[new[:2500], np.ones(2500)], code, rcond=None)[0]
    assert ours > finds(np.c_[new[2500:], np.ones(500)] @ slope, stored, 8) - 0.05


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    x, y, new = old_and_new(600)
    em.fit_vectors(x, 6, pairs=y, out=tmp_path / "old", **QUIET)
    with pytest.raises(EigenmapError, match=r"no space .*length 40\b"):
        em.fit_vectors(x, pairs=new, into=tmp_path / "old", **QUIET)
    with pytest.raises(EigenmapError, match="into needs pairs"):
        em.fit_vectors(new, lag=1, into=tmp_path / "old", **QUIET)
    with pytest.raises(EigenmapError, match="into needs pairs"):
        em.fit_vectors(new, 3, pairs=x, into=tmp_path / "old", **QUIET)
    with pytest.raises(EigenmapError, match="not a model directory"):
        em.fit_vectors(new, pairs=x, into=tmp_path / "none", **QUIET)


def test_new_vectors_that_are_all_the_same_are_refused(tmp_path: Path) -> None:
    x, y = planted()[:2]
    em.fit_vectors(x, pairs=y, out=tmp_path / "run", **QUIET)
    with pytest.raises(EigenmapError, match="All rows of the new vectors are the same"):
        em.fit_vectors(np.ones((len(y), 6)), pairs=y, into=tmp_path / "run", **QUIET)
