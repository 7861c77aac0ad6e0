"""Checks of what callers pass, with the sentence they read when it is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigenmap.core.errors import EigenmapError

if TYPE_CHECKING:
    from torch import Tensor


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
