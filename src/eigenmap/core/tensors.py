"""Arrays of any kind as tensors: read-only, reversed, of another byte order, or of a type that torch lacks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError


def as_tensor(array: Any, name: str = "The array") -> Tensor:
    """Return a tensor over the same memory, or over a copy if that is read-only and not a file.

    Raises if it is not an array. A read-only file is not copied either, since it can be larger than memory.
    """
    if isinstance(array, Tensor):
        return array.detach()
    mapped = isinstance(array, np.memmap)
    try:
        array = np.asarray(array)
    except ValueError:
        raise EigenmapError(f"{name} must be an array of numbers, with rows of one length.") from None
    array = plain_numbers(array, name)
    if any(stride < 0 for stride in array.strides):  # reversed, which torch does not support
        array = array.copy()
    if array.flags.writeable or not mapped:
        return torch.from_numpy(array if array.flags.writeable else array.copy())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # features are never written to
        return torch.from_numpy(array)


def plain_numbers(array: Any, name: str) -> Any:
    """Return an array or sparse matrix of a type that torch supports, unchanged if it has one."""
    if array.dtype.kind not in "biuf":
        raise EigenmapError(f"{name} must be numbers, not {array.dtype}.")
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        return array.astype(np.int64)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
