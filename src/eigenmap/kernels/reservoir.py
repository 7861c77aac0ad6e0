"""Reservoir: a random sample of fixed size from a stream of points."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class Reservoir:
    """Sample in which every point seen so far is equally likely, or more likely the larger its weight.

    Each point gets the key log(u) / w with u uniform in (0, 1), and the points with the largest keys stay [1]. Given
    the largest dropped key c, a point stays with probability 1 - exp(w c), so that each remaining point represents

        w / (1 - exp(w c))

    an unbiased estimate of the measure of all points [2]; it is w itself while nothing has been dropped.

    [1] Efraimidis, Spirakis: Weighted random sampling with a reservoir, 2006.
    [2] Cohen, Kaplan: Summarizing data using bottom-k sketches, 2007.

    Example:
        >>> sample = Reservoir(100)
        >>> sample.add(torch.rand(1000, 2), torch.ones(1000), torch.Generator())
        >>> sample.points.shape
        torch.Size([100, 2])

    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.seen = 0
        self.points = torch.empty(0)
        self.weights = torch.empty(0, dtype=torch.float64)
        self.keys = torch.empty(0, dtype=torch.float64)
        self.dropped = -math.inf

    def __len__(self) -> int:
        """Return the number of points in the sample."""
        return len(self.points)

    def add(self, x: Tensor, weights: Tensor, generator: torch.Generator) -> None:
        """Add more points of the stream; those of weight zero never enter."""
        w = weights.double().cpu()
        present = w > 0
        if not bool(present.all()):  # avoids copying all points needlessly
            w, x = w[present], x[present.to(x.device)]
        keys = torch.cat([self.keys, torch.rand(len(w), generator=generator, dtype=torch.float64).log() / w])
        self.seen += len(x)
        points = torch.cat([self.points.to(x), x]) if len(self.points) else x
        order = keys.argsort(descending=True)
        kept, left = order[: self.capacity], order[self.capacity :]
        if len(left):
            self.dropped = max(self.dropped, float(keys[left[0]]))
        self.keys, self.weights = keys[kept], torch.cat([self.weights, w])[kept]
        self.points = points[kept.to(x.device)].clone()

    def measure(self) -> Tensor:
        """Return the share of the total weight ever seen that each kept point represents."""
        return self.weights / -torch.expm1(self.weights * self.dropped)
