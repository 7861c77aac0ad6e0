from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from eigenmap import EigenmapError, NeuralEigenmap
from eigenmap.kernels.scale import data_scale, with_length_scale
from eigenmap.relations.kernel import rbf

X = load_digits().data[:150]


def test_the_scale_of_rbf_is_that_of_scikit_learn() -> None:
    gamma = SVC(gamma="scale").fit(X, X[:, 3] > 4)._gamma
    x = torch.from_numpy(X)
    assert np.allclose(rbf(x, x, data_scale("rbf", x)).numpy(), rbf_kernel(X, gamma=gamma))


def test_weights_count_as_repetitions() -> None:
    x = torch.from_numpy(X[:40])
    weights = torch.arange(40, dtype=torch.float64) % 3
    repeated = x.repeat_interleave(weights.long(), 0)
    for kernel in ("rbf", "laplacian"):
        assert data_scale(kernel, x, weights) == pytest.approx(data_scale(kernel, repeated))


def test_only_a_scale_that_is_not_given_is_chosen() -> None:
    x = torch.from_numpy(X)
    for given in ({"length_scale": 2.0}, {"length_scale": np.full(64, 2.0)}):
        assert with_length_scale("rbf", given, x, None) is given
    assert with_length_scale("cosine", None, x, None) is None
    assert with_length_scale(rbf, None, x, None) is None
    chosen = with_length_scale("matern", {"nu": 2.5, "length_scale": "scale"}, x, None)
    assert chosen == {"nu": 2.5, "length_scale": data_scale("matern", x)}
    assert data_scale("rbf", torch.ones(5, 3)) == 1.0


@pytest.mark.parametrize("kernel", ["rbf", "matern", "laplacian"])
def test_defaults_find_functions_of_the_digits(kernel: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = NeuralEigenmap(kernel=kernel, max_steps=0, random_state=0).fit(X)
    assert model.score(X) > 0.2 and model.eigenvalues_[0] > 10 / len(X)
    assert model.length_scale_ == pytest.approx(data_scale(kernel, torch.from_numpy(X)))


def test_a_kernel_that_sees_only_the_diagonal_is_worth_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"between different points: length_scale = 1.0"):
        NeuralEigenmap(kernel_params={"length_scale": 1.0}, max_steps=0, random_state=0).fit(X)
    with pytest.warns(UserWarning, match=r"between different points: give it a longer range"):
        NeuralEigenmap(kernel=rbf, max_steps=0, random_state=0).fit(X)


def test_a_saved_model_keeps_the_scale_of_its_data(tmp_path: object) -> None:
    model = NeuralEigenmap(max_steps=0, random_state=0).fit(X)
    again = NeuralEigenmap.load(model.save(str(tmp_path)))
    assert again.length_scale_ == model.length_scale_ and again.kernel_params is None
    assert again.score(X) == pytest.approx(model.score(X))


def test_both_spellings_of_neighbours(tmp_path: object) -> None:
    ours = NeuralEigenmap(kernel="neighbours", max_steps=2, random_state=0).fit(X)
    model = NeuralEigenmap(kernel="neighbors", max_steps=2, random_state=0).fit(X)
    assert np.array_equal(model.transform(X), ours.transform(X)) and model.length_scale_ is None
    again = NeuralEigenmap.load(model.save(str(tmp_path)))
    assert again.kernel == "neighbors" and np.array_equal(again.transform(X), model.transform(X))
    with pytest.raises(EigenmapError, match="neighbors"):
        NeuralEigenmap(kernel="neighbors").partial_fit(X)
