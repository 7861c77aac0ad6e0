from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.core.tensors import as_tensor

NUMBERS = [3, 0, 65_000]


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64", ">i4", ">f8", "longdouble", "int64"])
@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.filterwarnings("error")
def test_arrays_of_any_layout_become_tensors(dtype: str, step: int) -> None:
    array = np.array(NUMBERS, dtype)[::step]
    array.flags.writeable = False
    assert as_tensor(array).tolist() == NUMBERS[::step]


def test_memory_is_shared_unless_it_is_read_only() -> None:
    array = np.array(NUMBERS)
    as_tensor(array)[0] = 7
    assert array[0] == 7
    array.flags.writeable = False
    as_tensor(array)[0] = 8
    assert array[0] == 7


@pytest.mark.filterwarnings("error")
def test_a_read_only_file_is_not_copied(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array(NUMBERS))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert as_tensor(mapped).data_ptr() == mapped.ctypes.data


def test_what_is_no_array_of_numbers_is_named() -> None:
    with pytest.raises(EigenmapError, match="y must be numbers, not <U3"):
        as_tensor(np.array(["cat"]), "y")
    with pytest.raises(EigenmapError, match="y must be an array of numbers"):
        as_tensor([[1], [1, 2]], "y")
    assert torch.equal(as_tensor(torch.ones(2)), torch.ones(2))
