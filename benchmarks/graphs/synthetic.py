"""Synthetic graph of OGBN-Products' size and shape, generated from a seed on the device that uses it.

2,449,029 nodes, 61,859,140 undirected edges, 100 features, 47 classes of very different size: degree-corrected blocks,
one per class, with log-normal propensities; four of five edges join nodes of one class. Features are a class mean plus
noise. Two things make it as hard as the original:

- The noise is set so that the best possible classifier of features alone is right for `ALONE` of the nodes: an MLP
  comes close to that.
- `STRAYS` of the nodes, which have few edges, lie in the block of another class. Their features are those of their own
  class, but their neighbours suggest another, which limits a GCN to about 1 - `STRAYS`.

`Data.walk` and everything else stays on the device; nothing is read or downloaded.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from eigenmap.data import Adjacency

NODES, EDGES, FEATURES, CLASSES = 2_449_029, 61_859_140, 100, 47
TRAIN, VALIDATION = 0.08, 0.016
"""Shares of the official split."""
HOMOPHILY = 0.8
ALONE = 0.62
"""Accuracy of the best classifier of features."""
STRAYS, THIN = 0.25, 0.3
"""Share of the nodes that lie in the block of another class, and their propensity for edges as a share of others'."""


CHUNK = 1 << 26
"""Edges drawn at once."""


class Data(NamedTuple):
    """Nodes, edges and labels on one device."""

    x: Tensor
    y: Tensor
    walk: Adjacency
    train: Tensor
    validation: Tensor
    test: Tensor

    def homophily(self, draws: int = 1_000_000) -> float:
        """Share of edges within a class."""
        uniform = torch.rand(2, draws, dtype=torch.float64, device=self.y.device)
        centre = self.walk.centre(uniform[0])
        return float((self.y[centre] == self.y[self.walk.neighbour(centre, uniform[1])]).double().mean())


class Shape(NamedTuple):
    """Sizes of a graph; `Shape.of(0.01)` is a hundredth of the whole."""

    nodes: int
    edges: int

    @classmethod
    def of(cls, scale: float, edges: float = 1.0) -> Shape:
        return cls(max(2_000, round(NODES * scale)), round(EDGES * scale * edges))


def generate(shape: Shape, seed: int, device: torch.device) -> Data:
    generator = torch.Generator(device).manual_seed(seed)
    share = 1 / (torch.arange(CLASSES, device=device) + 4.0)
    share /= share.sum()
    block = torch.multinomial(share, shape.nodes, replacement=True, generator=generator)
    block = block.sort().values  # a block is a range of nodes; the split below is random
    stray = torch.rand(shape.nodes, generator=generator, device=device) < STRAYS
    y = torch.where(stray, torch.multinomial(share, shape.nodes, replacement=True, generator=generator), block)
    mean = torch.randn(CLASSES, FEATURES, generator=generator, device=device) / FEATURES**0.5
    noise = _noise(mean, share, generator)
    x = mean[y] + noise * torch.randn(shape.nodes, FEATURES, generator=generator, device=device)
    walk = _edges(block, stray, shape, generator)
    order = torch.randperm(shape.nodes, generator=generator, device=device)
    train, validation = round(TRAIN * shape.nodes), round((TRAIN + VALIDATION) * shape.nodes)
    return Data(x, y, walk, order[:train], order[train:validation], order[validation:])


def _noise(mean: Tensor, share: Tensor, generator: torch.Generator) -> float:
    """The noise that makes features as informative as they should be, by bisection."""
    low, high = 0.01, 2.0
    for _ in range(20):
        noise = (low + high) / 2
        low, high = (noise, high) if _best_accuracy(mean, share, noise, generator) > ALONE else (low, noise)
    return noise


def _best_accuracy(mean: Tensor, share: Tensor, noise: float, generator: torch.Generator, draws: int = 50_000) -> float:
    """Accuracy of Bayes' rule on features alone, by simulation."""
    y = torch.multinomial(share, draws, replacement=True, generator=generator)
    x = mean[y] + noise * torch.randn(draws, FEATURES, generator=generator, device=share.device)
    score = (x @ mean.T - mean.square().sum(1) / 2) / noise**2 + share.log()
    return float((score.argmax(1) == y).double().mean())


def _edges(block: Tensor, stray: Tensor, shape: Shape, generator: torch.Generator) -> Adjacency:
    """Draw ends by propensity, mostly within the block; a surplus makes up for repeated edges and loops."""
    device, n = block.device, shape.nodes
    propensity = torch.randn(n, generator=generator, device=device).exp().double() * torch.where(stray, THIN, 1.0)
    total = propensity.cumsum(0)
    size = torch.bincount(block, minlength=CLASSES)
    last = size.cumsum(0).clamp(min=1) - 1
    below = torch.where(last - size >= 0, total[(last - size).clamp(min=0)], 0.0)
    by_chance = float((torch.bincount(block, propensity, CLASSES) / total[-1]).square().sum())
    at_home = (1 - STRAYS) / (1 - STRAYS + STRAYS * THIN)  # share of the ends of edges
    stay = (HOMOPHILY / at_home**2 - by_chance) / (1 - by_chance)

    def draw(count: int) -> Tensor:
        uniform = torch.rand(3, count, dtype=torch.float64, generator=generator, device=device)
        source = torch.searchsorted(total, uniform[0] * total[-1]).clamp_(max=n - 1)
        home = block[source]
        within = below[home] + uniform[1] * (total[last[home]] - below[home])
        place = torch.where(uniform[2] < stay, within, uniform[1] * total[-1])
        target = torch.searchsorted(total, place).clamp_(max=n - 1)
        low, high = torch.minimum(source, target), torch.maximum(source, target)
        return (low * n + high)[low != high]

    def draw_many(count: int) -> Tensor:  # in pieces, which bounds the memory
        return torch.cat([draw(min(CHUNK, count - start)) for start in range(0, count, CHUNK)])

    keys = torch.unique(draw_many(round(1.05 * shape.edges)))
    while len(keys) < shape.edges:
        keys = torch.unique(torch.cat([keys, draw_many(2 * (shape.edges - len(keys)) + 100)]))
    # Sorted keys begin with the first blocks, so the surplus must be removed at random.
    surplus = torch.randperm(len(keys), generator=generator, device=device)[shape.edges :]
    kept = torch.ones(len(keys), dtype=torch.bool, device=device)
    kept[surplus] = False
    return symmetric(keys[kept], n)


def symmetric(keys: Tensor, n: int, pieces: int = 16) -> Adjacency:
    """The adjacency of undirected edges given once each, sorted, as low * n + high.

    This needs less memory than `build_adjacency`: rows are filled by ranges of nodes, so no sort sees all entries.
    """
    low = torch.div(keys, n, rounding_mode="floor")
    high = (keys - low * n).int()
    low = low.int()
    bounds = [n * piece // pieces for piece in range(pieces + 1)]
    first_key = torch.searchsorted(keys, torch.tensor(bounds, device=keys.device) * n).tolist()
    columns, degrees = [], []
    for piece, (first, last) in enumerate(pairwise(bounds)):
        mirrored = (high >= first) & (high < last)
        entries = torch.cat([keys[first_key[piece] : first_key[piece + 1]], high[mirrored].long() * n + low[mirrored]])
        entries = entries.sort().values
        rows = torch.arange(first, last + 1, device=keys.device) * n
        degrees.append(torch.searchsorted(entries, rows).diff())
        columns.append((entries % n).int())
    indptr = torch.cat([degrees[0].new_zeros(1), torch.cat(degrees).cumsum(0)])
    return Adjacency(indptr, torch.cat(columns))
