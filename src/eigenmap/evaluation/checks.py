"""Checks of what callers pass, with the sentence they read when it is wrong."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from eigenmap.errors import EigenmapError

if TYPE_CHECKING:
    from torch import Tensor


def whole_number(value: object, name: str, low: int = 1, high: int | None = None) -> int:
    """`value` as an int in [low, high], or an error that says what is allowed.

    >>> whole_number(16, "dim", 1, 256)
    16
    """
    allowed = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < low or (high is not None and number > high):
        raise EigenmapError(f"{name} must be {allowed}, not {value!r}")
    return number


def class_numbers(labels: object, n: int, name: str) -> Tensor:
    """Labels as an int64 vector of `n` class numbers on the CPU, or an error that names what does not fit."""
    import torch  # here: an index checks numbers and needs no torch

    numbers = torch.as_tensor(labels)
    if numbers.ndim != 1 or numbers.is_floating_point() or numbers.dtype == torch.bool:
        raise EigenmapError(f"{name} must be a vector of whole class numbers, one per item")
    if len(numbers) != n:
        raise EigenmapError(f"{name} has {len(numbers)} entries for {n} items; give one per item")
    if n and int(numbers.min()) < 0:
        raise EigenmapError(f"{name} holds {int(numbers.min())}; class numbers start at 0")
    return numbers.to("cpu", torch.int64)
