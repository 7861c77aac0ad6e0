"""Training batch: the output of every relation."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from eigenmap.core.errors import EigenmapError


class Batch(NamedTuple):
    """A batch of related inputs.

    Attributes:
        x: (B, ...) network inputs.
        x_plus: (B', ...) their partners.
        kernel: None if row b of `x_plus` is the partner of row b of `x`; (B,) weights of such pairs; or a (B, B') block
            of a kernel matrix.

    """

    x: Tensor
    x_plus: Tensor
    kernel: Tensor | None = None


def check_batch_size(batch_size: int, world_size: int) -> None:
    """Refuse a batch that the processes cannot share equally."""
    if batch_size < 1 or batch_size % world_size:
        raise EigenmapError(
            f"The batch size {batch_size} must be a positive multiple of the number of processes, which is "
            f"{world_size}."
        )
