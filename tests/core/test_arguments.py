"""What callers pass, and the sentence they read when it is wrong."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
import torch

from eigenmap.core.arguments import a_device, a_path, is_number, seed_number, whole_number
from eigenmap.core.errors import EigenmapError


@pytest.mark.parametrize("value", [1, 256, np.int64(7), torch.tensor(3)])
def test_whole_numbers_of_any_kind_become_int(value: Any) -> None:
    assert type(whole_number(value, "dim", 1, 256)) is int
    assert whole_number(value, "dim", 1, 256) == int(value)


@pytest.mark.parametrize("value", [0, 257, -1, "x", 2.0, None, True, pytest.param(10**5000, id="long")])
def test_anything_else_says_what_is_allowed(value: Any) -> None:
    with pytest.raises(EigenmapError, match=r"^dim .*1 to 256"):
        whole_number(value, "dim", 1, 256)


def test_without_an_upper_end_the_lower_one_is_named() -> None:
    with pytest.raises(EigenmapError, match=r"^top .*1.*0$"):
        whole_number(0, "top")


@pytest.mark.parametrize("seed", [0, np.uint64(2**63 - 1), 2**63 - 1])
def test_seeds_are_numbers_of_python(seed: Any) -> None:
    assert type(seed_number(seed)) is int
    torch.Generator().manual_seed(seed_number(seed) + 1000)  # held-out pairs and others count on from it


@pytest.mark.parametrize("seed", [-1, 2**63, None, 0.5, "1"])
def test_other_seeds_are_refused(seed: Any) -> None:
    with pytest.raises(EigenmapError, match=r"^seed .*0 to 9223372036854775807"):
        seed_number(seed)


def test_numbers_are_finite_and_of_any_kind() -> None:
    assert all(map(is_number, (0, 1.5, np.float32(2), np.int64(3), -1)))
    assert not any(map(is_number, (None, True, "1", float("nan"), float("inf"), [1], 10**400)))


def test_paths_as_text_or_as_paths() -> None:
    for value in ("runs/mine", Path("runs/mine"), PurePosixPath("runs/mine")):
        assert a_path(value, "out") == Path("runs/mine")


@pytest.mark.parametrize("value", [None, 3, b"runs", "", "a\0b", ["runs"]])
def test_what_is_no_path_is_refused(value: Any) -> None:
    with pytest.raises(EigenmapError, match=r"^out .*path"):
        a_path(value, "out")


def test_devices_that_are_here() -> None:
    assert a_device("cpu") == a_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("device", ["gpu", "auto", "cuda:99", "meta", "", 1.5, None, ["cpu"]])
def test_devices_that_are_not_here(device: Any) -> None:
    """`meta` is a device of torch that holds no numbers: a model moved there would be lost."""
    with pytest.raises(EigenmapError, match=r"^device .*available"):
        a_device(device)
