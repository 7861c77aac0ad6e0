import numpy as np
import pytest
import torch

from eigenmap.errors import EigenmapError
from eigenmap.evaluation.checks import class_numbers, whole_number


@pytest.mark.parametrize("value", [1, 256, np.int64(7), torch.tensor(3)])
def test_whole_numbers_of_any_kind_become_int(value):
    assert type(whole_number(value, "dim", 1, 256)) is int
    assert whole_number(value, "dim", 1, 256) == int(value)


@pytest.mark.parametrize("value", [0, 257, -1, "x", 2.0, None, True])
def test_anything_else_says_what_is_allowed(value):
    with pytest.raises(EigenmapError, match=r"^dim must be a whole number from 1 to 256, not "):
        whole_number(value, "dim", 1, 256)


def test_without_an_upper_end_the_lower_one_is_named():
    with pytest.raises(EigenmapError, match=r"^top must be a whole number of at least 1, not 0$"):
        whole_number(0, "top")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], "2 entries for 3 items"),
        ([0.5, 1.0, 2.0], "whole class numbers"),
        ([[0], [1], [2]], "whole class numbers"),
        ([True, False, True], "whole class numbers"),
        ([0, -1, 2], "start at 0"),
    ],
)
def test_labels_that_do_not_fit_are_named(labels, message):
    with pytest.raises(EigenmapError, match=message):
        class_numbers(labels, 3, "labels")


def test_labels_of_any_integer_type_become_int64():
    assert class_numbers(np.array([2, 0], dtype=np.uint8), 2, "labels").tolist() == [2, 0]
    assert class_numbers(torch.tensor([2, 0], dtype=torch.int16), 2, "labels").dtype == torch.int64
