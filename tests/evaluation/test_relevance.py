import numpy as np
import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.evaluation.relevance import Relevance

CPU = torch.device("cpu")


@pytest.mark.parametrize("n_classes", [1, 3, 62, 63, 64, 130])
def test_sharing_one_of_many_labels_is_found_in_every_column(n_classes):
    rng = np.random.default_rng(n_classes)
    asked, offered = rng.random((9, n_classes)) < 1.5 / n_classes, rng.random((14, n_classes)) < 1.5 / n_classes
    expected = (asked[:, None] & offered[None]).any(-1)
    relevance = Relevance(asked, offered, CPU)
    everything = torch.arange(14).expand(9, 14)
    assert relevance.hits(0, everything).numpy().tolist() == expected.tolist()
    assert relevance.hits(4, everything[:3]).numpy().tolist() == expected[4:7].tolist()
    for block, gallery_block in ((1, 1), (4, 5), (100, 100)):
        assert relevance.totals(block=block, gallery_block=gallery_block).tolist() == expected.sum(1).tolist()


def test_class_numbers_and_their_one_hot_matrix_mean_the_same():
    numbers = torch.tensor([3, 0, 3, 1, 1, 3])
    one_hot = torch.nn.functional.one_hot(numbers)
    for drop_self, expected in ((False, [3, 1, 3, 2, 2, 3]), (True, [2, 0, 2, 1, 1, 2])):
        assert Relevance(numbers, numbers, CPU).totals(drop_self).tolist() == expected
        assert Relevance(one_hot, one_hot.bool(), CPU).totals(drop_self).tolist() == expected


def test_an_item_without_labels_is_relevant_to_nothing_not_even_itself():
    labels = torch.tensor([[False, False], [True, False]])
    assert Relevance(labels, labels, CPU).totals().tolist() == [0, 1]
    assert Relevance(labels, labels, CPU).totals(drop_self=True).tolist() == [0, 0]
    numbers = torch.tensor([-1, 0, -1])  # as `Labels.to_integers` gives them
    assert Relevance(numbers, numbers, CPU).totals().tolist() == [0, 1, 0]
    assert not Relevance(numbers, numbers, CPU).hits(0, torch.tensor([[1, 2]])).any()


@pytest.mark.parametrize(
    ("asked", "offered", "message"),
    [
        (np.zeros(3), np.zeros(3, dtype=int), "query_labels.*matrix"),
        (np.zeros(3, dtype=int), np.zeros(3, dtype=bool), "gallery_labels"),
        (np.zeros((3, 0), dtype=bool), np.zeros((3, 0), dtype=bool), "query_labels"),
        (np.zeros((3, 2), dtype=bool), np.zeros((3, 4), dtype=bool), "number of classes"),
        (np.zeros(3, dtype=int), np.zeros((3, 4), dtype=bool), "same form"),
    ],
)
def test_labels_that_cannot_be_compared_say_why(asked, offered, message):
    with pytest.raises(EigenmapError, match=message):
        Relevance(asked, offered, CPU)


@pytest.mark.filterwarnings("error")
def test_class_numbers_of_any_layout_are_compared():
    labels = np.array([1, 0, 1], ">i4")[::-1]
    labels.flags.writeable = False
    assert Relevance(labels, labels.astype(np.uint16), CPU).totals().tolist() == [2, 1, 2]


def test_memory_does_not_grow_with_the_number_of_classes(monkeypatch):
    """Of old every comparison held all words of the labels: gigabytes for thousands of classes."""
    sizes, real = [], torch.Tensor.__and__

    def measured(a, b):
        made = real(a, b)
        sizes.append(made.numel())
        return made

    labels = np.random.default_rng(0).random((40, 1000)) < 0.01
    relevance = Relevance(labels, labels, CPU)
    monkeypatch.setattr(torch.Tensor, "__and__", measured)
    relevance.totals(drop_self=True, block=4, gallery_block=10)
    relevance.hits(0, torch.arange(10).expand(4, 10))
    assert max(sizes) == 40
