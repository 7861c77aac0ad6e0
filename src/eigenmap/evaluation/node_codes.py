"""Codes of nodes computed on demand: 2.4 million codes of 8,192 features would take 80 GB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError

CPU = torch.device("cpu")


@dataclass(frozen=True)
class StreamedCodes:
    """A matrix of codes, one row per node, whose rows are computed when they are indexed.

    Attributes:
        encode: node numbers (m,) -> their codes (m, k).
        shape: (n, k).
        device: device of the codes.

    Example:
        >>> codes = StreamedCodes(lambda nodes: nodes[:, None] * torch.ones(3), (10, 3))
        >>> codes[torch.tensor([2, 5])].shape
        torch.Size([2, 3])

    """

    encode: Callable[[Tensor], Tensor]
    shape: tuple[int, int]
    device: torch.device = CPU

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, nodes: Tensor) -> Tensor:
        return require_finite(self.encode(nodes).to(self.device, torch.float32))


def require_finite(codes: Tensor) -> Tensor:
    """Return the codes if all of them are finite numbers."""
    if not bool(torch.isfinite(codes).all()):
        raise EigenmapError("codes contain NaN or infinite values; every feature must be a finite number")
    return codes
