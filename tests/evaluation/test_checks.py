import numpy as np
import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.evaluation.checks import class_numbers


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], "2 entries.*3"),
        ([0.5, 1.0, 2.0], "class numbers"),
        ([[0], [1], [2]], "class numbers"),
        ([True, False, True], "class numbers"),
        ([0, -1, 2], "start at 0"),
    ],
)
def test_labels_that_do_not_fit_are_named(labels, message):
    with pytest.raises(EigenmapError, match=message):
        class_numbers(labels, 3, "labels")


def test_labels_of_any_integer_type_become_int64():
    assert class_numbers(np.array([2, 0], dtype=np.uint8), 2, "labels").tolist() == [2, 0]
    assert class_numbers(torch.tensor([2, 0], dtype=torch.int16), 2, "labels").dtype == torch.int64


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64", ">i4", ">i8"])
@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("writeable", [True, False])
@pytest.mark.filterwarnings("error")
def test_labels_of_any_layout_are_taken(dtype, step, writeable):
    """Of old these were tracebacks of torch, and a warning in the middle of a measurement."""
    labels = np.array([2, 0, 300], dtype)[::step]
    labels.flags.writeable = writeable
    assert class_numbers(labels, 3, "labels").tolist() == [2, 0, 300][::step]


def test_names_are_no_class_numbers():
    with pytest.raises(EigenmapError, match="labels must be numbers"):
        class_numbers(np.array(["cat", "dog"]), 2, "labels")
