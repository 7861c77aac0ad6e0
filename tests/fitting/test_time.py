"""Models of time series: slow modes, several trajectories, neural functions, what the model remembers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eigenmap as em
from benchmarks.time.methods import vamp2
from benchmarks.time.systems import SYSTEMS
from eigenmap import EigenmapError
from eigenmap.fitting.time import timescales_of
from eigenmap.fitting.vectors import fit_vectors, metric_of, scores_of
from tests.linear.dynamics import DECAYS, autoregressive, rotating
from tests.linear.planted import planted

QUIET: dict[str, Any] = {"progress": False, "device": "cpu"}


def test_a_model_remembers_its_timescales(tmp_path: Path) -> None:
    x = autoregressive(6000)
    model = fit_vectors([x[:2500], x[2500:]], lag=2, out=tmp_path / "run", **QUIET)
    again = em.Eigenmap.load(tmp_path / "run")
    found = timescales_of(again)
    assert found is not None and found.lags == (2, 4, 8) and metric_of(again) == "vamp-2"
    np.testing.assert_allclose(found.timescales[0, :2], -1 / np.log(DECAYS[:2]), rtol=0.25)
    whole = em.implied_timescales([x[:2500], x[2500:]], [2, 4, 8])
    np.testing.assert_allclose(found.eigenvalues, whole.eigenvalues, atol=1e-9)  # no ridge is needed here
    # The fit leaves out the few pairs with one end in a held-out stretch.
    np.testing.assert_allclose(model.eigenvalues_[:3], found.eigenvalues[0, :3], atol=1e-3)
    about = again.training["vectors"]
    assert about["rows"] == 6000 and about["time"]["trajectories"] == 2 and about["time"]["reversible"]
    assert timescales_of(fit_vectors(*planted()[:1], pairs=planted()[1], **QUIET)) is None


def test_lags_can_be_named_and_a_file_divided(tmp_path: Path) -> None:
    x = autoregressive(3000)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "lengths.npy", [1000, 2000])
    model = fit_vectors(
        tmp_path / "x.npy", 3, lag=2, lags=[1, 6], trajectories=tmp_path / "lengths.npy", reversible=False, **QUIET
    )
    found = timescales_of(model)
    assert found is not None and found.lags == (1, 2, 6) and model.right is not None
    modes = [side.encode(x, weighting="none", normalize=False) for side in (model, model.right)]
    correlation = [np.corrcoef(modes[0][:-2, j], modes[1][2:, j])[0, 1] for j in range(3)]
    np.testing.assert_allclose(correlation, model.eigenvalues_, atol=0.03)


def test_modes_are_those_of_the_definition_and_codes_weigh_them() -> None:
    x = autoregressive(3000)
    model = fit_vectors(x, 3, lag=1, **QUIET)
    modes = model.encode(x, weighting="none", normalize=False)
    np.testing.assert_allclose(np.cov(modes.T), np.eye(3), atol=0.02)
    codes = model.encode(x, normalize=False)
    weights = model.eigenvalues_ / model.eigenvalues_[0]
    np.testing.assert_allclose(codes, modes * weights, rtol=1e-3, atol=1e-4)


def test_a_neural_head_finds_the_known_eigenvalues_of_the_prinz_potential() -> None:
    """One coordinate: a linear map has one mode, the head finds three."""
    system = SYSTEMS["prinz"]
    lag = 5
    train = [x.astype(np.float32) for x in system.simulate(40, 800, seed=0)]
    model = fit_vectors(train, 6, lag=lag, solver="neural", steps=150, batch_size=1024, width=64, **QUIET)
    known = system.eigenvalues(lag, 3)
    assert model.training["vectors"]["winner"] == "neural"
    np.testing.assert_allclose(model.eigenvalues_[:3], known, atol=0.03)
    test = system.simulate(40, 800, seed=1)
    functions = [model.encode(x, dim=3, weighting="none", normalize=False) for x in test]
    score = vamp2(np.concatenate([f[:-lag] for f in functions]), np.concatenate([f[lag:] for f in functions]))
    assert score == pytest.approx(1 + (known**2).sum(), abs=0.1)
    scores = scores_of(model)
    assert scores["ours"][3] > scores["linear"][1] + 0.4


def test_a_head_that_finds_no_more_is_left_out() -> None:
    model = fit_vectors(
        autoregressive(1500), 3, lag=1, solver="neural", steps=40, lr=3.0, batch_size=64, width=8, **QUIET
    )
    assert model.training["vectors"]["winner"] == "pairs" and model.source == "encoder" and model.n_components == 3


def test_forward_in_time_the_neural_head_has_two_sides() -> None:
    x = rotating(3000)
    model = fit_vectors(
        np.sign(x) * x**2, 4, lag=1, reversible=False, solver="neural", steps=60, width=32, batch_size=512, **QUIET
    )
    assert model.right is not None and model.n_components == 4


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"lag": 0}, "lag .*0"),
        ({"lag": 2000}, "too few for a lag of 2,000"),
        ({"lag": 1, "lags": [900, 999]}, "pairs of rows 999 apart"),
        ({"lag": 1, "trajectories": [500]}, "add up to 500"),
        ({"lag": 1, "n_components": 9}, "at most 8"),
        ({"lag": 1, "into": "runs/x"}, "into needs pairs"),
        ({"labels": np.arange(1000) % 3, "trajectories": [500, 500]}, "need lag="),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(change: dict[str, Any], says: str) -> None:
    with pytest.raises(EigenmapError, match=says):
        fit_vectors(autoregressive(1000), **change, **QUIET)


def test_a_lag_that_is_too_long_to_list_is_refused_before_training(tmp_path: Path) -> None:
    x = autoregressive(1000)
    with pytest.raises(EigenmapError, match="There are 2 pairs of rows 998 apart, too few for 16 features"):
        fit_vectors(x, lag=1, lags=[998], solver="neural", steps=2, out=tmp_path / "run", **QUIET)
    with pytest.raises(EigenmapError, match="There are 59 pairs of rows 1 apart, too few for 40 features"):
        fit_vectors(autoregressive(60, d=40), lag=1, solver="neural", steps=2, out=tmp_path / "run", **QUIET)
    assert not (tmp_path / "run").exists()
