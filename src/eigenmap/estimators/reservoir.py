"""A random sample, of fixed size, of all points that ever came by."""

from __future__ import annotations

import torch
from torch import Tensor


class Reservoir:
    """Every point seen so far is in the sample with equal probability, or in proportion to its weight.

    Each point gets the key log(u) / w with u uniform in (0, 1), and the points with the largest keys stay (Efraimidis,
    Spirakis: Weighted random sampling with a reservoir, 2006).

    Example:
        >>> sample = Reservoir(100)
        >>> sample.add(torch.rand(1000, 2), None, torch.Generator())
        >>> sample.points.shape
        torch.Size([100, 2])

    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.seen = 0
        self.points = torch.empty(0)
        self.keys = torch.empty(0, dtype=torch.float64)

    def __len__(self) -> int:
        """Count the points in the sample."""
        return len(self.points)

    def add(self, x: Tensor, weights: Tensor | None, generator: torch.Generator) -> None:
        """Let more points come by; those of weight zero never enter."""
        keys = torch.rand(len(x), generator=generator, dtype=torch.float64).log()
        if weights is not None:
            keys, x = keys / weights.double().cpu(), x[(weights > 0).to(x.device)]
            keys = keys[weights.cpu() > 0]
        self.seen += len(x)
        keys = torch.cat([self.keys, keys])
        points = torch.cat([self.points.to(x), x]) if len(self.points) else x
        # In order of the keys: any prefix is a random sample too.
        kept = keys.argsort(descending=True)[: self.capacity]
        self.keys, self.points = keys[kept], points[kept.to(x.device)].clone()
