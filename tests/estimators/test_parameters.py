from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import RandomState
from torch import nn

from eigenmap import EigenmapError
from eigenmap.estimators.parameters import completed, stored, stored_twice


def kernel(x: Any, y: Any) -> Any:
    return x @ y.T


def test_plain_values_are_stored_and_others_named() -> None:
    values, own = stored(
        {
            "a": np.float32(0.5),
            "b": {"scale": np.array([1, 2]), "pair": (1, torch.tensor([2.0])), "flag": np.bool_(True)},
            "c": None,
            "d": torch.device("cpu"),
            "kernel": kernel,
            "network": nn.Linear(1, 1),
            "kernel_params": {"inner": {"f": kernel}},
            "random_state": RandomState(0),
            "numbered": {1: 2},
        }
    )
    assert {name: values[name] for name in "abcd"} == {
        "a": 0.5,
        "b": {"scale": [1, 2], "pair": [1, [2.0]], "flag": True},
        "c": None,
        "d": "cpu",
    }
    assert own == {
        "kernel": "kernel",
        "network": "Linear",
        "kernel_params": "dict",
        "random_state": "RandomState",
        "numbered": "dict",
    }
    assert all(values[name] is None for name in own)


def test_own_parameters_are_the_same_objects_as_at_the_fit() -> None:
    assert stored_twice({"kernel": kernel, "t": 1}, {"kernel": kernel, "t": 2}) == (
        {"kernel": None, "t": 1},
        {"kernel": None, "t": 2},
        {"kernel": "kernel"},
    )
    with pytest.raises(EigenmapError, match=r"kernel.*changed"):
        stored_twice({"kernel": "rbf"}, {"kernel": kernel})


def test_own_parameters_are_completed_by_what_is_given() -> None:
    values, own = {"kernel": None, "t": 1}, {"kernel": "kernel"}
    assert completed(values, own, {"kernel": kernel}, "here", "load") == {"kernel": kernel, "t": 1}
    for given, message in (
        ({}, r"kernel=kernel.*load\(directory, kernel="),
        ({"kernel": 3}, "kernel .*3"),
        ({"kernel": kernel, "t": 2}, r"\bt here"),
    ):
        with pytest.raises(EigenmapError, match=message):
            completed(values, own, given, "here", "load")
