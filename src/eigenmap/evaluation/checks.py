"""Validation of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigenmap.core.errors import EigenmapError

if TYPE_CHECKING:
    from torch import Tensor


def class_numbers(labels: object, n: int, name: str) -> Tensor:
    """Return labels as an int64 vector of `n` class numbers on the CPU, or raise an error that names the problem."""
    import torch  # imported here because an index uses this module without torch

    from eigenmap.core.tensors import as_tensor

    numbers = as_tensor(labels, name).cpu()
    if numbers.ndim != 1 or numbers.is_floating_point() or numbers.dtype == torch.bool:
        raise EigenmapError(f"{name} must be a vector of whole class numbers, one per item")
    if len(numbers) != n:
        raise EigenmapError(f"{name} has {len(numbers)} entries for {n} items; give one per item")
    numbers = numbers.to(torch.int64)
    if n and int(numbers.min()) < 0:
        raise EigenmapError(f"{name} contains {int(numbers.min())}; class numbers start at 0")
    return numbers
