"""PairEigenmap: canonical correlations, two sides, the interface of scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import eigenmap as em
from eigenmap import EigenmapError, PairEigenmap
from tests.fitting.test_vectors import squared
from tests.linear.planted import canonical_correlations, reflected, singular_values, two_spaces


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_linear_correlations_are_those_of_an_independent_reference(shift: float) -> None:
    x, y = two_spaces()
    x = x + shift
    estimator = PairEigenmap().fit(x, y)
    np.testing.assert_allclose(estimator.correlations_, canonical_correlations(x, y), atol=1e-6)
    assert (np.diff(estimator.correlations_) <= 0).all()


def test_transform_gives_canonical_variates_of_both_sides() -> None:
    x, y = two_spaces()
    estimator = PairEigenmap(4).fit(x, y)
    u, v = estimator.transform(x), estimator.transform(y, side="right")
    assert u.shape == v.shape == (1500, 4)
    np.testing.assert_allclose(u.T @ u / 1500, np.eye(4), atol=1e-6)
    np.testing.assert_allclose(u.T @ v / 1500, np.diag(estimator.correlations_), atol=1e-6)
    np.testing.assert_allclose(estimator.score(x, y), estimator.correlations_.mean(), atol=1e-6)


def test_planted_correlations_are_found_and_a_ridge_is_chosen() -> None:
    x, y = two_spaces(4000)
    chosen = PairEigenmap(4, ridge="auto").fit(x, y)
    np.testing.assert_allclose(chosen.correlations_, [0.95, 0.8, 0.6, 0.3], atol=0.12)
    rng = np.random.default_rng(0)
    few = PairEigenmap(2, ridge=10.0).fit(rng.normal(size=(30, 60)), rng.normal(size=(30, 50)))
    assert few.transform(rng.normal(size=(3, 60))).shape == (3, 2)


def test_it_is_an_estimator_of_scikit_learn() -> None:
    x, y = two_spaces(400)
    estimator = PairEigenmap(3, ridge=0.01)
    assert clone(estimator).get_params() == estimator.get_params()
    pipeline = make_pipeline(StandardScaler(), PCA(15), PairEigenmap(3)).fit(x, y)
    assert pipeline.transform(x).shape == (400, 3) and pipeline.score(x, y) > 0.5
    assert cross_val_score(estimator, x, y, cv=3).mean() > 0.6
    assert list(estimator.fit(x, y).get_feature_names_out()) == [f"paireigenmap{j}" for j in range(3)]
    frame = estimator.set_output(transform="pandas").transform(x)
    assert frame.shape == (400, 3)


@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn_pass() -> None:
    """All checks except those skipped for missing packages; the targets are one feature of the right side."""
    results = check_estimator(PairEigenmap(ridge=0.01), on_fail=None)
    assert [result["check_name"] for result in results if result["status"] == "failed"] == []
    assert sum(result["status"] == "passed" for result in results) > 40


def test_the_model_can_be_saved(tmp_path: Path) -> None:
    x, y = two_spaces(400)
    estimator = PairEigenmap(3).fit(x, y)
    estimator.model_.save(tmp_path / "run")
    again = em.Eigenmap.load(tmp_path / "run")
    found = again.side("right").encode(y, weighting="none", normalize=False)
    np.testing.assert_allclose(found, estimator.transform(y, side="right"), atol=1e-5)


@pytest.mark.slow
def test_the_neural_solver_sees_what_is_not_linear() -> None:
    x, y = squared(3000)
    settings = {"steps": 150, "lr": 3e-2, "batch_size": 256, "width": 64}
    neural = PairEigenmap(6, solver="neural", settings=settings, device="cpu").fit(x[:2500], y[:2500])
    linear = PairEigenmap(6).fit(x[:2500], y[:2500])
    assert neural.score(x[2500:], y[2500:]) > linear.score(x[2500:], y[2500:]) + 0.2


def shared(estimator: PairEigenmap, x: np.ndarray, y: np.ndarray, known: list[np.ndarray]) -> tuple[np.ndarray, Any]:
    """Correlations of the features of fresh pairs, and how far the features of each side are the known ones."""
    u, v = estimator.transform(x), estimator.transform(y, side="right")
    values = np.array([np.corrcoef(u[:, j], v[:, j])[0, 1] for j in range(known[0].shape[1])])
    alignment = [
        [abs(np.corrcoef(found[:, j], wanted[:, j])[0, 1]) for j in range(wanted.shape[1])]
        for found, wanted in zip((u, v), known, strict=True)
    ]
    return values, np.array(alignment)


def test_the_linear_solver_finds_known_singular_functions() -> None:
    """Of a Gaussian pair the linear ones are known: directions, and values that were planted."""
    rng = np.random.default_rng(0)
    rho = np.array([0.95, 0.8, 0.6])

    def pairs(n: int) -> tuple[np.ndarray, ...]:
        u, v = rng.normal(size=(n, 6)), rng.normal(size=(n, 4))
        v[:, :3] = rho * u[:, :3] + np.sqrt(1 - rho**2) * v[:, :3]
        return u @ mix[0] + 1, v @ mix[1] - 2, u[:, :3], v[:, :3]

    mix = rng.normal(size=(6, 6)), rng.normal(size=(4, 4))
    x, y, *_ = pairs(100_000)
    estimator = PairEigenmap(3).fit(x, y)
    np.testing.assert_allclose(estimator.correlations_, rho, rtol=0.01)
    x, y, *known = pairs(100_000)
    values, alignment = shared(estimator, x, y, known)
    np.testing.assert_allclose(values, rho, rtol=0.01)
    assert alignment.min() > 0.99


@pytest.mark.parametrize("seed", [0, 2])
def test_the_neural_solver_finds_known_singular_functions(seed: int) -> None:
    """Cosines of a number and of a curve through another: more functions than X has features, none of them linear."""
    x, y, *_ = reflected(20_000)
    settings = {"steps": 300, "batch_size": 512, "width": 128}
    estimator = PairEigenmap(4, solver="neural", settings=settings, device="cpu", random_state=seed).fit(x, y)
    assert estimator.correlations_.shape == (4,) and (np.diff(estimator.correlations_) <= 0).all()
    # On 2,000 held-out pairs a correlation has a standard error of up to 0.016.
    np.testing.assert_allclose(estimator.correlations_[:3], singular_values(), rtol=0, atol=0.05)
    x, y, *known = reflected(100_000, seed=1)
    values, alignment = shared(estimator, x, y, known)
    np.testing.assert_allclose(values, singular_values(), rtol=0.01)
    assert alignment.min() > 0.99


def test_heads_are_kept_for_what_their_functions_share_not_for_partners_found() -> None:
    """On a circle, linear maps with a ridge chosen by nDCG@10 find more partners, but mix functions."""
    rng = np.random.default_rng((1, 23))
    angle = rng.uniform(0, 2 * np.pi, 20_000)
    sides = [
        np.tanh(np.stack([np.cos(a), np.sin(a), np.ones_like(a)], 1) @ (1.5 * rng.normal(size=(3, 24))))
        for a in (angle, angle + 0.5 * rng.normal(size=len(angle)))
    ]
    settings = {"steps": 200}
    estimator = PairEigenmap(6, solver="neural", settings=settings, device="cpu", random_state=1).fit(*sides)
    assert estimator.model_.training["vectors"]["winner"] == "neural" and estimator.score(*sides) > 0.595


def test_a_neural_model_whose_features_are_functions_is_saved_with_them(tmp_path: Path) -> None:
    x, y, *_ = reflected(2000)
    settings = {"steps": 60, "batch_size": 512, "width": 32}
    estimator = PairEigenmap(3, solver="neural", settings=settings, device="cpu").fit(x, y)
    assert estimator.model_.plain and estimator.model_.training["vectors"]["winner"] == "neural"
    estimator.model_.save(tmp_path / "run")
    again = em.Eigenmap.load(tmp_path / "run")
    for side, rows in (("left", x), ("right", y)):
        found = again.side(side).encode(rows, weighting="none", normalize=False)  # type: ignore[arg-type]
        np.testing.assert_allclose(found, estimator.transform(rows, side=side), atol=1e-4)  # type: ignore[arg-type]


def test_a_vector_of_numbers_is_one_feature() -> None:
    x, y = two_spaces(400)
    assert PairEigenmap().fit(x, y[:, 0]).correlations_.shape == (1,)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"solver": "quantum"}, "solver"),
        ({"ridge": -1}, "ridge"),
        ({"ridge": "much"}, "ridge"),
        ({"n_components": 0}, "n_components"),
        ({"n_components": 13}, "at most 12"),
        ({"settings": {"steps": 5}}, "neural"),
        ({"solver": "neural", "settings": {"stpes": 5}}, "did you mean steps"),
    ],
)
def test_wrong_parameters_are_refused_by_fit(parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(EigenmapError, match=says):
        PairEigenmap(**parameters).fit(*two_spaces(400))


def test_wrong_data_is_refused() -> None:
    x, y = two_spaces(400)
    with pytest.raises(EigenmapError, match="400 rows and Y 399"):
        PairEigenmap().fit(x, y[1:])
    with pytest.raises(EigenmapError, match="requires y"):
        PairEigenmap().fit(x)
    with pytest.raises(EigenmapError, match="more pairs than features"):
        PairEigenmap().fit(x[:20], y[:20])
    with pytest.raises(NotFittedError):
        PairEigenmap().transform(x)
    with pytest.raises(ValueError, match="NaN"):
        PairEigenmap().fit(np.where(x > 3, np.nan, x), y)
    with pytest.raises(EigenmapError, match="side"):
        PairEigenmap().fit(x, y).transform(x, side="middle")  # type: ignore[arg-type]


def test_features_that_repeat_others_do_not_count() -> None:
    x, y = (np.random.default_rng(seed).normal(size=(100, 3)) for seed in (0, 1))
    x = np.c_[x, x[:, 0] + x[:, 1]]
    y = np.c_[y, y**2]
    assert PairEigenmap().fit(x, y).transform(x).shape == PairEigenmap(3).fit(x, y).transform(x).shape == (100, 3)
    with pytest.raises(EigenmapError, match=r"n_components is 4, but only 3 features .* use at most 3"):
        PairEigenmap(4).fit(x, y)
