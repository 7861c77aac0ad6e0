import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from eigenmap.core.errors import EigenmapError
from eigenmap.evaluation.probe import LinearProbe, fit_ridge, fit_sgd, fractions, standardisation


def blobs(n, d, n_classes, distance=6.0, seed=0):
    """Classes around points of their own, `distance` from the origin."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % n_classes
    centres = torch.nn.functional.one_hot(torch.arange(n_classes), d) * distance
    return torch.randn(n, d, generator=generator) + centres[labels], labels


def test_sgd_separates_separable_classes_and_predicts_new_ones():
    x, y = blobs(600, 8, 4)
    probe = fit_sgd(x, y, epochs=5)
    assert probe.accuracy(x, y) > 0.99
    assert probe.accuracy(*blobs(200, 8, 4, seed=1)) > 0.99


def test_sgd_is_softmax_regression_by_the_stated_steps():
    """Three epochs of one full batch, by hand: gradient, decay, momentum, cosine schedule."""
    x, y = blobs(30, 3, 2, distance=1.0)
    x = x.double()
    w, velocity = torch.zeros(2, 4, dtype=torch.float64), torch.zeros(2, 4, dtype=torch.float64)
    rows = torch.cat([x, torch.ones(30, 1, dtype=torch.float64)], dim=1)
    for rate in (0.1, 0.075, 0.025):
        error = torch.softmax(rows @ w.T, dim=1) - torch.nn.functional.one_hot(y)
        velocity = 0.9 * velocity + error.T @ rows / 30 + 0.01 * w
        w = w - rate * velocity
    probe = fit_sgd(x, y, epochs=3, weight_decay=0.01)
    torch.testing.assert_close(torch.cat([probe.weight, probe.bias[:, None]], dim=1), w.float())


def test_sgd_depends_on_the_seed_alone_and_leaves_the_generator_of_the_process_alone():
    x, y = blobs(100, 4, 2)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    first = fit_sgd(x, y, epochs=2, batch_size=32, seed=7)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.weight, fit_sgd(x, y, epochs=2, batch_size=32, seed=7).weight)
    assert not torch.equal(first.weight, fit_sgd(x, y, epochs=2, batch_size=32, seed=8).weight)


@pytest.mark.parametrize("strength", [1e-6, 0.1, 10.0])
def test_ridge_is_that_of_scikit_learn(strength):
    x, y = blobs(90, 5, 3, distance=1.0)
    x = x.double() * torch.arange(1, 6) + 100
    probe = fit_ridge(x, y, lambdas=[strength], block=16)
    scale = float(x.var(0, correction=0).mean())
    expected = Ridge(alpha=strength * scale * 90).fit(x.numpy(), torch.nn.functional.one_hot(y).double().numpy())
    np.testing.assert_allclose(probe.weight, expected.coef_, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(probe.bias, expected.intercept_, rtol=1e-7)


def test_ridge_without_penalty_is_least_squares():
    x, y = blobs(60, 4, 2, distance=1.0)
    rows = np.concatenate([x.double().numpy(), np.ones((60, 1))], axis=1)
    expected = np.linalg.lstsq(rows, np.eye(2)[y], rcond=None)[0].T
    probe = fit_ridge(x, y, lambdas=[1e-12])
    np.testing.assert_allclose(np.column_stack([probe.weight, probe.bias]), expected, atol=1e-8)


def test_ridge_does_not_depend_on_the_scale_of_the_features():
    x, y = blobs(80, 6, 3, distance=1.0)
    small, large = fit_ridge(x.double() * 1e-5, y), fit_ridge(x.double() * 1e5, y)
    torch.testing.assert_close(small.weight * 1e-10, large.weight)


def test_lambda_is_chosen_on_held_out_training_data():
    """Few rows, many noise features: hardly any penalty fits the noise, a strong one does not."""
    x, y = blobs(120, 100, 2, distance=1.5)
    x_new, y_new = blobs(2000, 100, 2, distance=1.5, seed=1)
    chosen = fit_ridge(x, y).accuracy(x_new, y_new)
    weak = fit_ridge(x, y, lambdas=[1e-8]).accuracy(x_new, y_new)
    assert chosen > weak + 0.05
    either = [fit_ridge(x, y, lambdas=[strength]) for strength in (1e-8, 1.0)]
    both = fit_ridge(x, y, lambdas=[1e-8, 1.0])
    assert any(torch.equal(both.weight, probe.weight) for probe in either)


def test_ridge_with_one_item_per_class_and_with_constant_features():
    probe = fit_ridge(np.eye(3), np.array([0, 1, 2]))
    assert probe.predict(np.eye(3)).tolist() == [0, 1, 2]
    constant = fit_ridge(np.ones((4, 2)), np.array([0, 1, 1, 1]))
    assert constant.predict(np.array([[5.0, -5.0]])).tolist() == [1]


def test_predictions_do_not_depend_on_the_block_and_accept_none():
    probe = LinearProbe(torch.eye(3), torch.tensor([0.0, 0.5, 0.0]))
    x = np.random.default_rng(0).standard_normal((20, 3))
    expected = (x + np.array([0.0, 0.5, 0.0])).argmax(1).tolist()
    assert probe.predict(x, block=3).tolist() == probe.predict(x).tolist() == expected
    assert probe.predict(x[:0]).tolist() == []


def test_fractions_are_stratified_nested_and_seeded():
    labels = np.repeat([0, 1, 2, 5], [1000, 300, 20, 3])
    parts = fractions(labels, (0.01, 0.1, 1.0), seed=4)
    assert {share: np.bincount(labels[few], minlength=6).tolist() for share, few in parts.items()} == {
        0.01: [10, 3, 1, 0, 0, 1],
        0.1: [100, 30, 2, 0, 0, 1],
        1.0: [1000, 300, 20, 0, 0, 3],
    }
    assert set(parts[0.01].tolist()) < set(parts[0.1].tolist()) < set(parts[1.0].tolist())
    assert parts[1.0].tolist() == list(range(1323))
    assert torch.equal(parts[0.1], fractions(labels, (0.1,), seed=4)[0.1])
    assert not torch.equal(parts[0.1], fractions(labels, (0.1,), seed=5)[0.1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_sgd(np.zeros((0, 2)), np.zeros(0, dtype=int)), "one row"),
        (lambda: fit_sgd(np.zeros((2, 2)), np.zeros(3, dtype=int)), "labels.*3 entries.*2"),
        (lambda: fit_sgd(np.full((2, 2), np.nan), np.zeros(2, dtype=int)), "NaN.*infinite"),
        (lambda: fit_sgd(np.zeros((2, 2)), np.zeros(2, dtype=int), epochs=0), "epochs"),
        (lambda: fit_ridge(np.zeros((2, 2)), np.zeros(2, dtype=int), lambdas=[]), "lambdas.*0"),
        (lambda: fit_ridge(np.zeros((2, 2)), np.zeros(2, dtype=int), lambdas=[0.0]), "lambdas"),
        (lambda: fit_ridge(np.zeros((2, 2)), np.zeros(2, dtype=int), held_out=1.0), "held_out.*share"),
        (lambda: fractions(np.zeros(2, dtype=int), (0.0,)), "fraction.*0"),
        (lambda: fractions(np.zeros(2, dtype=int), (1.5,)), r"fraction.*1\.5"),
        (lambda: LinearProbe(torch.eye(2), torch.zeros(2)).predict(np.zeros((1, 3))), "probe.*2"),
    ],
)
def test_bad_input_says_what_is_allowed(call, message):
    with pytest.raises(EigenmapError, match=message):
        call()


def test_features_are_standardised_whatever_their_size():
    """Of old, a feature a million times smaller than the largest counted as constant."""
    x = torch.randn(500, 4, generator=torch.Generator().manual_seed(0))
    units = torch.tensor([1e-20, 1e-9, 1.0, 1e12])
    mean, scale = standardisation(torch.cat([x * units + 3 * units, torch.full((500, 1), 0.1), torch.zeros(500, 1)], 1))
    torch.testing.assert_close((x * units + 3 * units - mean[:4]) * scale[:4], (x - x.mean(0)) / x.std(0, correction=0))
    assert scale[4:].tolist() == [0, 0]
