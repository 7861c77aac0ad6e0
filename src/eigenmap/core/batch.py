"""Training batch: the output of every relation."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


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
