from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from eigenmap.core.errors import EigenmapError
from eigenmap.evaluation import nodes
from eigenmap.evaluation.node_codes import StreamedCodes
from eigenmap.evaluation.nodes import (
    Labelled,
    NodeSplit,
    default_dims,
    evaluate_nodes,
    few_labels,
    fit_probe_logistic,
    fit_probe_paper,
    fit_probe_ridge,
    random_split,
)
from eigenmap.evaluation.probe import fit_ridge


def blobs(n=300, d=6, n_classes=3, distance=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % n_classes
    centres = torch.nn.functional.one_hot(torch.arange(n_classes), d) * distance
    return torch.randn(n, d, generator=generator) + centres[labels], labels


def halves(x, y):
    half = len(x) // 2
    return Labelled(x[:half], y[:half]), Labelled(x[half:], y[half:])


def test_splits_are_disjoint_seeded_and_leave_unlabelled_nodes_out():
    labels = torch.arange(1000) % 7 - 1
    split = random_split(labels, seed=3)
    nodes = torch.cat(split)
    known = int((labels >= 0).sum())
    assert len(nodes) == len(nodes.unique()) == known and (labels[nodes] >= 0).all()
    assert [len(part) for part in split] == [86, 86, known - 172]
    assert all(torch.equal(a, b) for a, b in zip(split, random_split(labels, seed=3), strict=True))
    assert not torch.equal(split.train, random_split(labels, seed=4).train)


@pytest.mark.parametrize("dtype", ["uint16", ">i4"])
def test_labels_of_any_integer_type_are_taken(dtype):
    x, y = blobs(60)
    labels = y.numpy().astype(dtype)
    split = random_split(labels, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(split, random_split(y, seed=0), strict=True))
    assert torch.equal(few_labels(labels, split.train, 0.5), few_labels(y, split.train, 0.5))
    assert evaluate_nodes(x, labels, [split], shares=(1.0,)) == evaluate_nodes(x, y, [split], shares=(1.0,))


def test_few_labels_keep_every_class():
    labels, train = torch.arange(300) % 3, torch.arange(0, 300, 2)
    few = few_labels(labels, train, 0.01, seed=1)
    assert sorted(labels[few].tolist()) == [0, 1, 2] and set(few.tolist()) <= set(train.tolist())
    assert torch.equal(few_labels(labels, train, 1.0), train)


@pytest.mark.parametrize("strength", [2.0**-6, 1.0, 2.0**8])
def test_logistic_probe_is_one_against_the_rest_of_scikit_learn(strength):
    x, y = blobs()
    probe = fit_probe_logistic(Labelled(x.double(), y), Labelled(x.double(), y), [strength], 3000)
    rows = torch.nn.functional.normalize(x.double(), dim=1).numpy()
    reference = OneVsRestClassifier(LogisticRegression(C=strength, tol=1e-10, max_iter=10_000)).fit(rows, y.numpy())
    for place, one in enumerate(reference.estimators_):
        np.testing.assert_allclose(probe.weight[place], one.coef_[0], rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(probe.bias[place], one.intercept_[0], rtol=1e-3, atol=1e-3)
    assert probe.predict(7 * x.double()).tolist() == reference.predict(rows).tolist()


def test_a_logistic_probe_of_more_features_than_rows_is_that_of_scikit_learn():
    x, y = blobs()
    x, y = torch.cat([x[:40], torch.rand(40, 60, generator=torch.Generator().manual_seed(1))], 1).double(), y[:40]
    assert x.shape[1] > len(x)
    probe = fit_probe_logistic(Labelled(x, y), Labelled(x, y), [4.0], 3000)
    rows = torch.nn.functional.normalize(x, dim=1).numpy()
    reference = OneVsRestClassifier(LogisticRegression(C=4.0, tol=1e-10, max_iter=10_000)).fit(rows, y.numpy())
    for place, one in enumerate(reference.estimators_):
        np.testing.assert_allclose(probe.weight[place], one.coef_[0], rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(probe.bias[place], one.intercept_[0], rtol=1e-3, atol=1e-3)


def test_every_c_starts_from_the_one_before_and_ends_where_it_would_alone():
    train, held = halves(*blobs())
    path = fit_probe_logistic(train, held, [2.0**-4, 2.0**2])
    alone = [fit_probe_logistic(train, held, [c]) for c in (2.0**-4, 2.0**2)]
    best = max(alone, key=lambda probe: probe.accuracy(*held))
    torch.testing.assert_close(path.weight, best.weight, rtol=1e-2, atol=1e-2)


def test_choices_are_those_of_the_validation_nodes():
    """Few rows, many noise features: hardly any penalty fits the noise. What wins on validation is returned."""
    x, y = blobs(200, 60, 2, distance=1.5)
    train, held = halves(x, y)
    for fit, tried in (
        (fit_probe_ridge, [fit_ridge(*train, lambdas=[c], held_out=0.5) for c in (1e-8, 1e-2, 1.0)]),
        (fit_probe_logistic, [fit_probe_logistic(train, held, [c]) for c in (2.0**-8, 1.0, 2.0**8)]),
    ):
        assert fit(train, held).accuracy(*held) >= max(probe.accuracy(*held) for probe in tried)


def test_the_paper_s_probe_by_hand():
    """Two epochs of one full batch: warm-up, smoothing, decay, momentum; then the better epoch on validation."""
    x, y = blobs(40, 3, 2, distance=1.0)
    train, held = Labelled(x.double(), y), Labelled(x.double(), y)
    found = fit_probe_paper(train, held, epochs=2, warmup=2, batch_size=40)
    rows = (train.x - train.x.mean(0)) / train.x.std(0, correction=0)
    rows = torch.cat([rows, torch.ones(40, 1, dtype=torch.float64)], 1)
    target = torch.nn.functional.one_hot(y).double() * 0.9 + 0.05
    w, velocity, states = torch.zeros(2, 4, dtype=torch.float64), torch.zeros(2, 4, dtype=torch.float64), []
    for rate in (0.005, 0.01):
        velocity = 0.9 * velocity + (torch.softmax(rows @ w.T, 1) - target).T @ rows / 40 + 1e-3 * w
        w = w - rate * velocity
        states.append(w)
    right = [float(((rows @ state.T).argmax(1) == y).double().mean()) for state in states]
    best = states[max(range(2), key=lambda epoch: right[epoch])]
    torch.testing.assert_close(found.weight * train.x.std(0, correction=0), best[:, :3])
    torch.testing.assert_close(found.bias + found.weight @ train.x.mean(0), best[:, 3])


def test_a_class_without_a_training_node_is_never_predicted():
    x, y = blobs(90, 4, 3)
    train = Labelled(x[y != 1], y[y != 1])
    probe = fit_probe_logistic(train, Labelled(x, y))
    assert set(probe.predict(x).tolist()) == {0, 2}


@pytest.mark.parametrize("probe", ["ridge", "logistic", "paper"])
def test_rows_are_means_over_the_runs(probe):
    x, y = blobs(400, 6, 3)
    splits = [random_split(y, seed, 0.2, 0.2) for seed in range(3)]
    rows = evaluate_nodes(x, y, splits, shares=(0.1, 1.0), dims=[1, 3], probe=probe)
    assert [(row["share"], row["dim"]) for row in rows] == [(0.1, 1), (0.1, 3), (1.0, 1), (1.0, 3)]
    single = [evaluate_nodes(x, y, [split], shares=(1.0,), dims=[3], probe=probe)[0] for split in splits]
    accuracies = [row["accuracy"] for row in single]
    assert rows[3]["accuracy"] == pytest.approx(np.mean(accuracies))
    assert rows[3]["spread"] == pytest.approx(np.std(accuracies, ddof=1))
    assert rows[3]["runs"] == 3 and rows[3]["labels"] == 80 and rows[0]["labels"] == 9
    # The classes are in the first three features: three are worth more than one, and nearly separate them.
    assert rows[2]["accuracy"] + 0.1 < rows[3]["accuracy"] and rows[3]["accuracy"] > 0.7


@pytest.mark.parametrize("probe", ["ridge", "logistic", "paper"])
def test_codes_that_are_streamed_score_as_those_that_are_held(probe, monkeypatch):
    x, y = blobs(300, 5, 3)
    shared, other = random_split(y, 0, 0.3, 0.3), random_split(y, 1, 0.3, 0.3)
    splits = [shared, other, shared]
    monkeypatch.setattr(nodes, "BLOCK", 17)
    asked: list[int] = []

    def encode(numbers):
        asked.append(len(numbers))
        return x[numbers]

    options = {"shares": (0.2, 1.0), "dims": [2, 5], "probe": probe}
    assert evaluate_nodes(StreamedCodes(encode, (300, 5)), y, splits, **options) == evaluate_nodes(
        x, y, splits, **options
    )
    # 120 test nodes of two splits, for two shares: in blocks, and once for the two runs that share a split.
    assert sum(count for count in asked if count <= 17) == 2 * 2 * 120 and len(asked) == 2 * (2 * 8 + 3 * 2)


def test_streamed_codes_must_be_finite():
    x, y = blobs(60, 3, 2)
    with pytest.raises(EigenmapError, match="NaN or infinite"):
        evaluate_nodes(StreamedCodes(lambda numbers: x[numbers] / 0, (60, 3)), y, [random_split(y, 0, 0.3, 0.3)])


def test_all_labels_of_one_split_are_one_run():
    x, y = blobs(120, 5, 3)
    split = random_split(y, 0, 0.3, 0.3)
    few, every = evaluate_nodes(x, y, [split] * 4, shares=(0.1, 1.0), dims=[3])
    assert (few["runs"], every["runs"]) == (4, 1) and few["spread"] > 0
    (alone,) = evaluate_nodes(x, y, [split], shares=(1.0,), dims=[3])
    assert alone == every


@pytest.mark.parametrize("probe", ["ridge", "logistic", "paper"])
def test_names_of_classes_may_be_any_numbers(probe):
    x, y = blobs(120, 5, 3)
    split = random_split(y, 0, 0.3, 0.3)
    far_apart = torch.tensor([7, 10**12, 10**15])[y]
    expected, found = (evaluate_nodes(x, labels, [split], shares=(1.0,), probe=probe) for labels in (y, far_apart))
    assert found == expected


def test_test_labels_change_nothing_but_the_score():
    x, y = blobs(120, 5, 2)
    split = random_split(y, 0, 0.3, 0.3)
    wrong = y.clone()
    wrong[split.test] = 1 - wrong[split.test]
    right, inverted = (evaluate_nodes(x, labels, [split], shares=(1.0,))[-1] for labels in (y, wrong))
    assert right["validation"] == inverted["validation"]
    assert right["accuracy"] == pytest.approx(1 - inverted["accuracy"])


def test_default_lengths():
    assert default_dims(4) == [4] and default_dims(64) == [8, 16, 32, 64]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codes": torch.full((10, 2), float("nan"))}, "NaN.*infinite"),
        ({"codes": torch.zeros(10)}, "row.*node"),
        ({"labels": torch.zeros(9, dtype=torch.long)}, "10 nodes"),
        ({"labels": torch.zeros(10)}, "class"),
        ({"splits": []}, "split"),
        ({"splits": [NodeSplit(torch.tensor([0]), torch.tensor([1]), torch.tensor([10]))]}, "outside 0 ... 9"),
        ({"splits": [NodeSplit(torch.tensor([0]), torch.tensor([], dtype=torch.long), torch.tensor([1]))]}, "is empty"),
        ({"labels": torch.tensor([-1, *([0, 1] * 4), 0])}, "1 nodes.*label"),
        ({"labels": torch.full((10,), 3)}, "two classes"),
        (
            {"splits": [NodeSplit(torch.tensor([0]), torch.tensor([1]), torch.tensor([2, 3, 2]))]},
            "1 nodes.*listed",
        ),
        ({"dims": [3]}, "dim.*1.*2"),
        ({"probe": "svm"}, "ridge, logistic, paper"),
        ({"shares": (2.0,)}, "label fraction"),
    ],
)
def test_bad_input_says_what_is_allowed(change, message):
    split = NodeSplit(torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([4, 5]))
    given = {"codes": torch.rand(10, 2), "labels": torch.arange(10) % 2, "splits": [split]} | change
    with pytest.raises(EigenmapError, match=message):
        evaluate_nodes(**given)


def test_a_split_needs_nodes_and_shares():
    with pytest.raises(EigenmapError, match="3 labelled"):
        random_split(torch.full((10,), -1), 0)
    with pytest.raises(EigenmapError, match=r"together.*1"):
        random_split(torch.zeros(10), 0, 0.5, 0.5)
