"""NeuralEigenmap: the interface of scikit-learn, kernels, bad input.

Its accuracy is tested in tests/end_to_end/test_neural_eigenmap.py.
"""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from torch import Tensor, nn

import eigenmap as em
from eigenmap.core.errors import EigenmapError
from eigenmap.estimators import NeuralEigenmap
from eigenmap.objectives import NeuralEF
from eigenmap.relations.kernel import rbf

RNG = np.random.default_rng(0)
SPREAD = np.array([1.0, 0.5])  # unequal, so that eigenvalues are simple
X = RNG.normal(size=(120, 2)) * SPREAD
UNIT = {"length_scale": 1.0}
NEW = RNG.normal(size=(50, 2)) * SPREAD


def overlaps(found: Any, expected: Any) -> Any:
    """Absolute cosines between the columns."""
    inner = (found * expected).sum(0)
    return np.abs(inner) / (np.linalg.norm(found, axis=0) * np.linalg.norm(expected, axis=0))


def kernel_pca(x: Any, new: Any, k: int, gamma: float = 0.5) -> tuple[Any, Any]:
    """Uncentred kernel PCA, that is Nystroem with all points: eigenvalues, and functions at new points."""
    mu, vectors = np.linalg.eigh(rbf_kernel(x, gamma=gamma) / len(x))
    mu, vectors = mu[::-1][:k], vectors[:, ::-1][:, :k] * np.sqrt(len(x))
    return mu, rbf_kernel(new, x, gamma=gamma) @ vectors / (len(x) * mu)


# scikit-learn


def test_check_estimator_passes_with_no_expected_failures() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # raised by scikit-learn itself
        results = check_estimator(NeuralEigenmap(), on_skip=None)
    assert len(results) > 40
    # The skipped check needs an environment variable of SciPy.
    assert {result["status"] for result in results if result["check_name"] != "check_array_api_input"} == {"passed"}


def test_is_public_and_lazy() -> None:
    assert em.NeuralEigenmap is NeuralEigenmap


def test_agrees_with_kernel_pca() -> None:
    model = NeuralEigenmap(5, kernel_params=UNIT, random_state=0).fit(X)
    mu, functions = kernel_pca(X, NEW, 5)
    np.testing.assert_allclose(model.eigenvalues_, mu, rtol=1e-3)
    assert overlaps(model.transform(NEW), functions).min() > 0.999
    np.testing.assert_allclose((model.transform(X) ** 2).mean(0), 1, rtol=1e-6)
    # KernelPCA centres the kernel; for the linear kernel of centred data the two agree.
    centred = X - X.mean(0)
    linear = NeuralEigenmap(2, kernel="polynomial", kernel_params={"degree": 1, "coef0": 0.0, "gamma": 1.0})
    theirs = KernelPCA(2, kernel="linear").fit_transform(centred)
    assert overlaps(linear.fit_transform(centred), theirs).min() > 0.9999


def test_in_a_pipeline_and_a_grid_search() -> None:
    points, labels = make_moons(200, noise=0.1, random_state=0)
    pipeline = make_pipeline(StandardScaler(), NeuralEigenmap(8, random_state=0), LogisticRegression())
    grid = {"neuraleigenmap__kernel_params": [{"length_scale": 0.3}, {"length_scale": 30.0}]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(points, labels)
    assert search.best_params_ == {"neuraleigenmap__kernel_params": {"length_scale": 0.3}}
    assert search.best_score_ > 0.95


def test_a_grid_search_by_its_own_score() -> None:
    search = GridSearchCV(NeuralEigenmap(random_state=0), {"n_components": [1, 6]}, cv=2, error_score="raise").fit(X)
    assert search.best_params_ == {"n_components": 6}


def test_clone_and_pickle() -> None:
    model = NeuralEigenmap(3, kernel="matern", kernel_params={"nu": 2.5}, random_state=0)
    assert clone(model).get_params() == model.get_params()
    codes = model.fit(X).transform(NEW)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(NEW), codes)
    np.testing.assert_array_equal(clone(model).fit(X).transform(NEW), codes)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library: str) -> None:
    frame = (pd if library == "pandas" else pl).DataFrame({"height": X[:, 0], "width": X[:, 1]})
    model = NeuralEigenmap(3, random_state=0).set_output(transform=library)
    codes = model.fit_transform(frame)
    names = ["neuraleigenmap0", "neuraleigenmap1", "neuraleigenmap2"]
    assert list(codes.columns) == names == model.get_feature_names_out().tolist()
    assert model.feature_names_in_.tolist() == ["height", "width"]
    np.testing.assert_allclose(codes.to_numpy(), NeuralEigenmap(3, random_state=0).fit(X).transform(X))


def test_use_before_fit_is_an_error() -> None:
    with pytest.raises(NotFittedError):
        NeuralEigenmap().transform(X)
    assert not hasattr(NeuralEigenmap(), "eigenvalues_")


# Kernels


def test_a_function_as_kernel() -> None:
    def gauss(x: Tensor, y: Tensor, width: float) -> Tensor:
        return rbf(x, y, width)

    model = NeuralEigenmap(4, kernel=gauss, kernel_params={"width": 1.0}, random_state=0).fit(X)
    np.testing.assert_allclose(
        model.transform(NEW), NeuralEigenmap(4, kernel_params=UNIT, random_state=0).fit(X).transform(NEW)
    )


def test_an_indefinite_kernel_keeps_its_signs() -> None:
    def difference(x: Tensor, y: Tensor) -> Tensor:
        return x[:, :1] @ y[:, :1].T - 3 * x[:, 1:] @ y[:, 1:].T

    with pytest.warns(UserWarning, match="rank 2.*2 eigenfunctions.*4"):
        model = NeuralEigenmap(4, kernel=difference, random_state=0).fit(X)
    expected = np.linalg.eigvals(np.diag([1, -3]) @ (X.T @ X / len(X)))
    np.testing.assert_allclose(model.eigenvalues_, sorted(expected.real)[::-1], rtol=1e-6)
    assert model.rank_ == 2
    assert model.transform(NEW).shape == (50, 2)
    assert len(model.get_feature_names_out()) == 2


@pytest.mark.parametrize(
    "form",
    [np.asarray, scipy.sparse.csr_array, torch.as_tensor, pd.DataFrame, pl.DataFrame],
    ids=["dense", "sparse", "torch", "pandas", "polars"],
)
def test_a_gram_matrix_with_features_of_the_nodes(form: Any) -> None:
    K = rbf_kernel(X, gamma=0.5)
    model = NeuralEigenmap(4, kernel="precomputed", random_state=0).fit(X, gram=form(K))
    mu, functions = kernel_pca(X, NEW, 4)
    np.testing.assert_allclose(model.eigenvalues_, mu, rtol=1e-2)
    assert overlaps(model.transform(X), kernel_pca(X, X, 4)[1]).min() > 0.999
    assert overlaps(model.transform(NEW), functions).min() > 0.9
    assert model.score(NEW, gram=rbf_kernel(NEW, gamma=0.5)) > 0.5


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_a_gram_matrix_alone(form: Any) -> None:
    """Points are described by their similarities to the training points, as in scikit-learn's `KernelPCA`."""
    model = NeuralEigenmap(4, kernel="precomputed", random_state=0).fit(form(rbf_kernel(X, gamma=0.5)))
    mu, functions = kernel_pca(X, NEW, 4)
    np.testing.assert_allclose(model.eigenvalues_, mu, rtol=1e-2)
    similarities = form(rbf_kernel(NEW, X, gamma=0.5))
    assert overlaps(model.transform(similarities), functions).min() > 0.95
    assert model.score(similarities) == pytest.approx(mu.sum(), abs=0.1)


def test_neighbours_separate_what_is_apart_and_place_new_points() -> None:
    points, labels = make_moons(300, noise=0.05, random_state=0)
    new, new_labels = make_moons(100, noise=0.05, random_state=1)
    model = NeuralEigenmap(4, kernel="neighbours", kernel_params={"n_neighbors": 10}, random_state=0).fit(points)
    assert model.eigenvalues_[0] == pytest.approx(1, abs=1e-3)
    classifier = LogisticRegression(C=100).fit(model.transform(points), labels)
    assert classifier.score(model.transform(new), new_labels) > 0.98
    assert 0.9 < model.score(new) <= 1
    assert (model.held_out_eigenvalues_ < 1 + 1e-9).all()
    np.testing.assert_allclose(model.held_out_eigenvalues_, model.eigenvalues_, atol=0.1)
    assert model.groups_[0] == [0]  # the constant is separate although all eigenvalues are near 1


def test_neighbours_in_two_clusters_have_the_eigenvalue_one_twice() -> None:
    model = NeuralEigenmap(3, kernel="neighbours", max_steps=0, random_state=0).fit(np.concatenate([X, X + 20]))
    assert model.groups_ == [[0, 1], [2]]


def test_the_laplacian_convention_has_the_smallest_eigenvalues() -> None:
    points, _ = make_moons(200, noise=0.05, random_state=0)
    graph = {"n_neighbors": 10}
    adjacency = NeuralEigenmap(3, kernel="neighbours", kernel_params=graph, random_state=0).fit(points)
    laplacian = NeuralEigenmap(3, kernel="neighbours", kernel_params={**graph, "laplacian": True}, random_state=0)
    np.testing.assert_array_equal(laplacian.fit_transform(points), adjacency.transform(points))
    np.testing.assert_allclose(laplacian.eigenvalues_, 1 - adjacency.eigenvalues_)
    assert (np.diff(laplacian.eigenvalues_) >= 0).all()


@pytest.mark.parametrize("kernel", ["rbf", "matern", "laplacian", "polynomial", "cosine"])
def test_vectors_of_many_numbers(kernel: str) -> None:
    """Neither rounding of large distances nor many more features than points is an error."""
    wide = np.random.default_rng(1).normal(size=(60, 300))
    model = NeuralEigenmap(2, kernel=kernel, max_steps=0, random_state=0).fit(wide)
    assert model.transform(wide[:5]).shape == (5, 2)


# Measure, size, precision


def test_blocks_are_made_in_double_precision_where_single_would_spoil_the_kernel() -> None:
    """Pixels from 0 to 255 are thousands of length scales apart; a function may accept only float64."""
    rng = np.random.default_rng(1)
    pixels, few = rng.integers(0, 256, size=(40, 300)).astype(float), rng.normal(size=(40, 2))
    direction = torch.ones(2, dtype=torch.float64)

    def along(x: Tensor, y: Tensor) -> Tensor:
        return torch.outer(x @ direction, y @ direction)

    options: dict[str, Any] = {"batch_size": 32, "objective": "ritz-trace", "max_steps": 2, "random_state": 0}
    assert NeuralEigenmap(1, kernel_params=UNIT, **options).fit(few)._solver.dtype == torch.float32
    with pytest.warns(UserWarning, match="length_scale"):
        assert NeuralEigenmap(1, kernel_params=UNIT, **options).fit(pixels)._solver.dtype == torch.float64
    assert NeuralEigenmap(1, kernel=along, **options).fit(few)._solver.dtype == torch.float64


def test_weights_are_the_measure() -> None:
    """Points drawn from N(0, 1) and weighted to N(0, 0.5^2) have the eigenvalues of points drawn there."""
    x = np.random.default_rng(1).normal(size=(800, 1))
    weighted = NeuralEigenmap(3, kernel_params=UNIT, random_state=0).fit(x, sample_weight=np.exp(-1.5 * x[:, 0] ** 2))
    drawn, _ = kernel_pca(0.5 * np.random.default_rng(2).normal(size=(2000, 1)), NEW[:, :1], 3)
    plain, _ = kernel_pca(x, NEW[:, :1], 3)
    np.testing.assert_allclose(weighted.eigenvalues_, drawn, rtol=0.15)
    assert (np.abs(plain / drawn - 1) > 0.15).all()


def test_codes_weighted_by_the_root_of_the_eigenvalues_approximate_the_kernel() -> None:
    codes = NeuralEigenmap(30, t=0.5, kernel_params=UNIT, random_state=0).fit(X).transform(NEW)
    error = np.abs(codes @ codes.T - rbf_kernel(NEW, gamma=0.5))
    assert np.quantile(error, 0.95) < 0.01  # a few of the new points lie far from all others


def test_single_precision_stays_single() -> None:
    codes = NeuralEigenmap(3, random_state=0).fit(X.astype(np.float32)).transform(NEW.astype(np.float32))
    assert codes.dtype == np.float32
    np.testing.assert_allclose(codes, NeuralEigenmap(3, random_state=0).fit(X).transform(NEW), atol=1e-3)


def test_small_blocks_of_more_data_and_eigenvalues_judged_elsewhere() -> None:
    x = np.random.default_rng(1).normal(size=(3000, 2)) * SPREAD
    options: dict[str, Any] = {"batch_size": 256, "reference_size": 1000, "kernel_params": UNIT, "random_state": 0}
    model = NeuralEigenmap(5, objective="ritz-trace", max_steps=20, **options).fit(x)
    assert model.n_steps_ == 20
    mu, functions = kernel_pca(x, NEW, 5)
    np.testing.assert_allclose(model.eigenvalues_, mu, rtol=0.1)
    np.testing.assert_array_equal(model.eigenvalues_, model.held_out_eigenvalues_)
    assert overlaps(model.transform(NEW), functions).min() > 0.98
    assert NeuralEigenmap(5, **options).fit(x).n_steps_ == 0  # no training is needed


def test_batches_as_they_come() -> None:
    model = NeuralEigenmap(4, batch_size=256, reference_size=1200, kernel_params=UNIT, random_state=0)
    x = np.random.default_rng(1).normal(size=(1200, 2)) * SPREAD
    for part in np.split(x, 6):
        model.partial_fit(part)
    assert model.n_steps_ == 6
    mu, functions = kernel_pca(x, NEW, 4)
    np.testing.assert_allclose(model.eigenvalues_, mu, rtol=0.1)
    assert overlaps(model.transform(NEW), functions).min() > 0.98
    before = model.transform(NEW)
    model.partial_fit(x[:1] + 0.1, sample_weight=[1.0])  # one more point
    assert model.n_steps_ == 7
    assert not np.array_equal(model.transform(NEW), before)


def test_parameters_may_be_numbers_of_numpy() -> None:
    plain, numpy = (
        NeuralEigenmap(whole(2), t=real(0.5), tol=real(0.5), max_steps=whole(5), random_state=0).fit_transform(X[:30])
        for whole, real in ((int, float), (np.int64, np.float32))
    )
    np.testing.assert_array_equal(plain, numpy)


def test_partial_fit_continues_a_fit_and_counts_weights() -> None:
    weights = np.where(X[:, 0] > 0, 1.0, 0.0)
    model = NeuralEigenmap(2, kernel_params=UNIT, random_state=0).fit(X[:60]).partial_fit(X, sample_weight=weights)
    kept = model._solver.reservoir.points
    assert len(kept) == 60 + int(weights.sum())
    expected = clone(model).fit(X[:60]).partial_fit(X, sample_weight=weights).partial_fit(X)
    # A stream continues with its first parameters, whatever is set later.
    model.set_params(n_components=5, kernel="cosine").partial_fit(X)
    np.testing.assert_array_equal(model.transform(X), expected.transform(X))
    assert model.score(X) == expected.score(X)
    assert model.transform(NEW).shape == (50, 2)


@pytest.mark.parametrize("reference_size", [40, 600], ids=["a sample stays", "all points stay"])
def test_weights_of_batches_are_the_measure_too(reference_size: int) -> None:
    """A weight of two equals a repeated point: within a batch, across batches, and after a fit."""
    x = np.random.default_rng(1).normal(size=(600, 1))
    weights = np.where(x[:, 0] > 0, 20.0, 1.0)
    options: dict[str, Any] = {"reference_size": reference_size, "kernel_params": UNIT, "random_state": 0}
    exact = NeuralEigenmap(2, kernel_params=UNIT, random_state=0).fit(x, sample_weight=weights)
    plain = NeuralEigenmap(2, kernel_params=UNIT, random_state=0).fit(x)
    assert abs(plain.eigenvalues_[0] / exact.eigenvalues_[0] - 1) > 0.15
    mixed = NeuralEigenmap(2, **options).partial_fit(x, sample_weight=weights)
    heavy, light = x[weights == 20], x[weights == 1]
    apart = NeuralEigenmap(2, **options).partial_fit(light).partial_fit(heavy, sample_weight=np.full(len(heavy), 20.0))
    after = NeuralEigenmap(2, **options).fit(light).partial_fit(heavy, sample_weight=np.full(len(heavy), 20.0))
    for model in (mixed, apart, after):
        rtol = 0.1 if reference_size < 600 else 1e-3
        assert model.eigenvalues_[0] == pytest.approx(exact.eigenvalues_[0], rel=rtol)


# Reports


def test_eigenvalues_that_cannot_be_told_apart_are_a_group() -> None:
    """x.y in four dimensions, on the axes: one fourfold eigenvalue of each degree."""
    x = np.concatenate([np.eye(4), -np.eye(4)])
    with pytest.warns(UserWarning, match="rank 5"):
        model = NeuralEigenmap(6, kernel="polynomial", kernel_params={"degree": 1}, random_state=0).fit(x)
    assert model.groups_ == [[0], [1, 2, 3, 4]]


def test_held_out_eigenvalues_are_honest() -> None:
    """In 50 dimensions, 200 points seem to have a few strong modes, but have many weak ones."""
    noise = np.random.default_rng(1).normal(size=(200, 50))
    model = NeuralEigenmap(10, kernel_params={"length_scale": 3.0}, random_state=0).fit(noise)
    assert model.eigenvalues_[2:].sum() > 1.8 * np.abs(model.held_out_eigenvalues_[2:]).sum()


def test_a_narrow_network_is_not_taken_for_a_kernel_of_low_rank() -> None:
    options: dict[str, Any] = {"kernel": "laplacian", "max_steps": 0, "random_state": 0}
    with pytest.warns(UserWarning, match="9 functions.*width"):
        model = NeuralEigenmap(20, network_params={"width": 8}, **options).fit(X)
    assert model.transform(NEW).shape == (50, 9)
    many = np.random.default_rng(1).normal(size=(400, 4))
    assert NeuralEigenmap(300, **options).fit(many).eigenvalues_.shape == (300,)


@pytest.mark.parametrize("network", ["separate", "shared"])
def test_layouts(network: str) -> None:
    model = NeuralEigenmap(
        3, network=network, kernel_params=UNIT, network_params={"width": 24}, max_steps=100, random_state=0
    ).fit(X)
    assert model.network_.separate == (network == "separate")  # type: ignore[union-attr]
    mu, functions = kernel_pca(X, NEW, 3)
    np.testing.assert_allclose(model.eigenvalues_, mu, rtol=0.05)
    assert overlaps(model.transform(NEW), functions).min() > 0.97


def test_a_network_of_ones_own() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 40), nn.Tanh())
    before = network[0].weight.clone()
    model = NeuralEigenmap(3, network=network, kernel_params=UNIT, max_steps=50, random_state=0).fit(X)
    assert overlaps(model.transform(NEW), kernel_pca(X, NEW, 3)[1]).min() > 0.98
    assert torch.equal(network[0].weight, before)  # a parameter is copied, not trained
    assert model.psi(NEW).shape == (50, 40)


@pytest.mark.parametrize("objective", ["neuralef-ratio", "neuralef-gram", "nested", "ritz-trace"])
def test_other_objectives(objective: str) -> None:
    model = NeuralEigenmap(3, objective=objective, max_steps=30, random_state=0)
    model.fit(X, sample_weight=np.linspace(1, 2, len(X)))
    assert model.n_steps_ == 30
    assert overlaps(model.transform(NEW), kernel_pca(X, NEW, 3)[1]).min() > 0.9


def test_a_weak_alpha_warns_with_a_sufficient_value() -> None:
    with pytest.warns(UserWarning, match=r"alpha = 0\.5 .*exceed \d+"):
        NeuralEigenmap(4, objective="neuralef", objective_params={"alpha": 0.5}, max_steps=5, random_state=0).fit(X)


def test_the_shift_follows_from_the_smallest_eigenvalue() -> None:
    def sign(x: Tensor, y: Tensor) -> Tensor:
        return x[:, :1] @ y[:, :1].T - x[:, 1:] @ y[:, 1:].T

    options: dict[str, Any] = {"objective": "neuralef-shifted", "objective_params": {"shift": "auto"}, "max_steps": 5}
    positive = NeuralEigenmap(2, **options, random_state=0).fit(X)
    indefinite = NeuralEigenmap(2, kernel=sign, **options, random_state=0).fit(X)
    assert positive._solver.trainer.objective.shift == pytest.approx(0.5)
    b = -indefinite.eigenvalues_[1] / np.abs(indefinite.eigenvalues_).max()
    assert indefinite._solver.trainer.objective.shift == pytest.approx((0.5 + b) / (1 + b), abs=0.02)


# Bad input


def wrong_shape(x: Tensor, y: Tensor) -> Tensor:
    return x @ x.T


def wrong_shape_of_many(x: Tensor, y: Tensor) -> Tensor:
    return (x @ y.T)[:, :100]


def not_symmetric(x: Tensor, y: Tensor) -> Tensor:
    return x[:, :1] + 0 * y[:, 0]


def undefined_somewhere(x: Tensor, y: Tensor) -> Tensor:
    hole = X[X[:, 0].argsort()[50], 0]  # not one of the points on which the kernel is tried
    return torch.where((x[:, :1] == hole) | (y[:, 0] == hole), torch.nan, x @ y.T)


HOLED = X.copy()
HOLED[3, 1] = np.nan
ENDLESS = X.copy()
ENDLESS[3, 1] = np.inf


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (HOLED, {}, "contains NaN"),
        (ENDLESS, {}, "contains infinity"),
        (X, {"kernel": wrong_shape}, r"shape \(64, 65\).*\(64, 64\)"),
        (X, {"kernel": wrong_shape_of_many}, r"shape .*\(120, 100\)"),
        (X, {"kernel": lambda x, y: (x - y).square()}, "kernel.*64 and 65 points.*size of tensor"),
        (X, {"kernel": undefined_somewhere}, "NaN.*points"),
        (X, {"kernel": not_symmetric}, "not symmetric"),
        (X, {"kernel": rbf_kernel}, "tensor.*ndarray"),
        (X, {"kernel": lambda x, y: torch.zeros(len(x), len(y))}, "zero"),
        (X, {"kernel_params": 3}, "kernel_params.*3"),
        (X, {"kernel_params": {"length_scale": "long"}}, "length_scale"),
        (X, {"kernel": "polynomial", "kernel_params": {"degree": "3"}}, "degree .*polynomial"),
        (X, {"kernel": "gauss"}, "'gauss'.*precomputed, neighbours"),
        (X, {"kernel": None}, "kernel None"),
        (X, {"t": "a"}, r"\bt .*'a'"),
        (X, {"t": 10**400}, r"\bt .*0"),
        (X, {"device": "quantum"}, "device 'quantum'"),
        (X, {"network": nn.Linear(7, 3)}, "network.*2 features"),
        (X, {"network": nn.Linear(2, 3), "network_params": {"width": 9}}, "network_params"),
        (X, {"objective": NeuralEF(), "objective_params": {"alpha": 9.0}}, "objective_params"),
        (X, {"kernel_params": {"gamma": 1}}, "rbf.*gamma"),
        (X, {"kernel": "neighbours", "kernel_params": {"radius": 1}}, "neighbours.*radius"),
        (X, {"kernel": "precomputed"}, "120 x 120.*120 x 2"),
        (X[:5], {"n_components": 6}, "n_components = 6.*5"),
        (X[:1], {}, "1 sample"),
        (X, {"n_components": 0}, "n_components.*1.*0"),
        (X, {"n_components": 2.5}, "n_components"),
        (X, {"batch_size": 1}, "batch_size.*4"),
        (X, {"max_steps": -1}, "max_steps"),
        (X, {"reference_size": "large"}, "reference_size"),
        (X, {"tol": -1.0}, "tol.*0"),
        (X, {"learning_rate": 0.0}, "learning_rate.*0"),
        (X, {"objective": "magic"}, "objective 'magic'"),
        (X, {"network": "transformer"}, "network.*auto, shared, separate"),
        (X, {"network_params": {"height": 3}}, "network_params.*height"),
        (X @ X.T, {"kernel": "precomputed", "network_params": {"width": "3"}}, "width"),
    ],
)
def test_bad_input_is_named(x: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NeuralEigenmap(**options).fit(x)


def test_bad_combinations_are_named() -> None:
    with pytest.raises(EigenmapError, match="kernels"):
        NeuralEigenmap().fit(X, gram=rbf_kernel(X))
    with pytest.raises(EigenmapError, match=r"degree.*sample_weight"):
        NeuralEigenmap(kernel="neighbours").fit(X, sample_weight=np.arange(120.0))
    with pytest.raises(ValueError, match="non-zero"):
        NeuralEigenmap().fit(X, sample_weight=np.zeros(120))
    with pytest.raises(EigenmapError, match=r"partial_fit.*function"):
        NeuralEigenmap(kernel="neighbours").partial_fit(X)
    with pytest.raises(EigenmapError, match=r"3 points.*n_components = 4"):
        NeuralEigenmap(4).partial_fit(X[:3]).transform(X)
    with pytest.raises(EigenmapError, match=r"fit\(X, gram=matrix\)"):
        NeuralEigenmap(kernel="precomputed").fit(scipy.sparse.eye_array(10_001, format="csr"))
    with pytest.raises(EigenmapError, match=r"score\(X, gram="):
        NeuralEigenmap(kernel="precomputed", random_state=0).fit(X, gram=rbf_kernel(X)).score(X)
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        NeuralEigenmap(random_state=0).fit(X).score(X[:1])  # there are no pairs
    with pytest.raises(EigenmapError, match="zero"):
        NeuralEigenmap(kernel="precomputed").fit(X, gram=np.zeros((120, 120)))


def test_a_kernel_may_return_whole_numbers() -> None:
    def same_side(x: Tensor, y: Tensor) -> Tensor:
        return (x[:, :1] * y[:, 0] > 0).long()

    model = NeuralEigenmap(2, kernel=same_side, max_steps=0, random_state=0).fit(X)
    share = (X[:, 0] > 0).mean()
    assert model.eigenvalues_[0] == pytest.approx(max(share, 1 - share), abs=0.1)


def test_constant_features_and_constant_data() -> None:
    padded = np.column_stack([X, np.full(120, 1e6)])
    model = NeuralEigenmap(3, kernel_params=UNIT, random_state=0).fit(padded)
    assert overlaps(model.transform(padded), kernel_pca(X, X, 3)[1]).min() > 0.999
    with pytest.warns(UserWarning, match="rank 1"):
        constant = NeuralEigenmap(2, random_state=0).fit(np.ones((20, 3)))
    np.testing.assert_allclose(constant.transform(np.ones((4, 3))), 1.0)
    np.testing.assert_allclose(constant.eigenvalues_, [1.0])
