import math

import numpy as np
import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.evaluation.neighbours import knn_accuracy, knn_predict
from tests.evaluation import reference


def codes(n, k, seed=0):
    return np.random.default_rng(seed).standard_normal((n, k)).astype(np.float32)


def vote(query, gallery, labels, n_neighbours, temperature, dim, leave_out=None):
    order, cosines = reference.ranking(query, gallery, dim, leave_out)
    votes = [0.0] * (int(labels.max()) + 1)
    for i in order[:n_neighbours]:
        votes[labels[i]] += math.exp(cosines[i] / temperature)
    return votes.index(max(votes))


@pytest.mark.parametrize(
    ("n_neighbours", "temperature", "dim"), [(1, 0.1, 8), (5, 0.1, 3), (20, 1.0, 8), (200, 0.1, 8)]
)
def test_votes_are_those_of_the_definition(n_neighbours, temperature, dim):
    queries, gallery = codes(15, 8, 1), codes(60, 8, 2)
    labels = np.random.default_rng(3).integers(4, size=60)
    predicted = knn_predict(
        queries,
        gallery,
        labels,
        n_neighbours=n_neighbours,
        temperature=temperature,
        dim=dim,
        block=4,
        gallery_block=25,
    )
    assert predicted.tolist() == [vote(q, gallery, labels, n_neighbours, temperature, dim) for q in queries]


def test_leaving_the_item_itself_out():
    gallery, labels = codes(40, 6), np.arange(40) % 3
    predicted = knn_predict(gallery, gallery, labels, n_neighbours=5, drop_self=True)
    expected = [vote(gallery[i], gallery, labels, 5, 0.1, 6, leave_out=i) for i in range(40)]
    assert predicted.tolist() == expected
    accuracy = knn_accuracy(gallery, labels, gallery, labels, n_neighbours=5, drop_self=True)
    assert accuracy == np.mean(np.array(expected) == labels)


def test_a_very_cold_vote_is_the_nearest_neighbour():
    queries, gallery, labels = codes(10, 5, 1), codes(30, 5, 2), torch.arange(30)
    cold = knn_predict(queries, gallery, labels, temperature=1e-4)
    assert torch.equal(cold, knn_predict(queries, gallery, labels, n_neighbours=1))


def test_equal_votes_go_to_the_lower_class():
    gallery = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    assert knn_predict(gallery[:1], gallery, torch.tensor([5, 2])).tolist() == [2]


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_the_temperature_must_be_a_positive_number(temperature):
    with pytest.raises(EigenmapError, match=r"temperature.*0"):
        knn_predict(codes(2, 3), codes(4, 3), np.zeros(4, dtype=int), temperature=temperature)


def test_large_gaps_between_class_numbers_take_no_memory():
    """Of old every number up to the largest had a vote: terabytes here."""
    codes, labels = torch.eye(4), torch.tensor([5, 10**12, 5, 7])
    assert knn_predict(codes, codes, labels, n_neighbours=1).tolist() == labels.tolist()


def test_the_number_of_neighbours_must_be_at_least_one():
    with pytest.raises(EigenmapError, match=r"n_neighbours.*1"):
        knn_predict(codes(2, 3), codes(4, 3), np.zeros(4, dtype=int), n_neighbours=0)


def test_labels_must_fit_the_codes():
    with pytest.raises(EigenmapError, match=r"gallery_labels.*3 entries.*4"):
        knn_predict(codes(2, 3), codes(4, 3), np.zeros(3, dtype=int))
    with pytest.raises(EigenmapError, match=r"query_labels.*3 entries.*2"):
        knn_accuracy(codes(2, 3), np.zeros(3, dtype=int), codes(4, 3), np.zeros(4, dtype=int))
