"""What every relation yields."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Batch(NamedTuple):
    """Things that belong together.

    Attributes:
        x: (B, ...) inputs of the network.
        x_plus: (B', ...) their partners.
        kernel: None if row b of `x_plus` is the partner of row b of `x`; (B,) weights of such pairs; or (B, B') the
            block of a kernel matrix.

    """

    x: Tensor
    x_plus: Tensor
    kernel: Tensor | None = None
