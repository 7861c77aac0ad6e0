r"""Graphs as relations: the two ends of an edge belong together.

Draw an edge uniformly, in either direction: its ends (x, x+) are a step of the random walk P = D^-1 W started in the
degree measure pi. Then R = E[psi(x) psi(x+)^T] and C = E[psi psi^T] are the moments of the relation, the eigenvalues of
P are those of the normalised adjacency D^-1/2 W D^-1/2, and the first eigenfunction is constant. As for two views of
one image, the same objectives and the same alignment apply.

Variants of the walk:

- `hops=2`: P^2, two independent neighbours of one node; all eigenvalues are squares, so none is negative.
- `lazy=c`: (1 - c) P + c I, the same eigenfunctions, eigenvalues (1 - c) mu + c.
- `teleport=e`: (1 - e) P + e 1 pi^T. The constant keeps the eigenvalue 1 and all others shrink by 1 - e. Without
  teleport, every connected component has its own constant with eigenvalue 1.
- `start="uniform"`: x is drawn uniformly from the nodes, and x+ is its neighbour, so hubs count less. With two hops,
  the node between x and x+ is drawn uniformly.
- `start="balanced"`: most x are drawn uniformly and some by degree, and pairs are weighted so that every expectation is
  that of the degree measure. Eigenfunctions on a few nodes of low degree are then sampled much more often.

`NodeBlocks` is the sampler of the paper, which uses the few edges between two random blocks of nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from eigenmap.core.batch import Batch, check_batch_size
from eigenmap.core.errors import EigenmapError
from eigenmap.core.sparse import sparse_coo
from eigenmap.data.graphs.adjacency import Adjacency
from eigenmap.relations.seeds import stream

Start = Literal["degree", "uniform", "balanced"]
Sampler = Literal["edges", "node-blocks"]

# Purposes of random streams; part of their seeds.
_PAIRS, _BLOCKS, _HELD_OUT = 4, 5, 6
# Walks over a held-out edge are drawn again until fewer than one in 10,000 is left, or at most this often.
_LEFT, _FEWEST_ROUNDS, _MOST_ROUNDS = 1e-4, 4, 64
# Share of balanced starts that are drawn uniformly: a hub's weight is at most ten times its sampling rate.
_UNIFORMLY = 0.9
MOST_HELD_OUT = 10_000
"""Maximum number of edges withheld from training."""


class HeldOutEdges(NamedTuple):
    """Edges withheld from training; `rows` and `columns` are their ends, `keys` are sorted."""

    rows: Tensor
    columns: Tensor
    weights: Tensor | None
    keys: Tensor

    def contain(self, keys: Tensor) -> Tensor:
        """Tell which edges are held out."""
        places = torch.searchsorted(self.keys, keys).clamp_(max=len(self.keys) - 1)
        return self.keys[places] == keys


def hold_out_edges(
    walk: Adjacency, fraction: float = 0.1, maximum: int = MOST_HELD_OUT, seed: int = 0
) -> HeldOutEdges | None:
    """Draw `fraction` of the edges, at most `maximum`, to withhold from training; return None if there are none.

    An edge is held out in both directions.
    """
    check_held_out(fraction)
    edges = walk.n_entries // 2 if walk.symmetric else walk.n_entries
    count = min(math.floor(edges * fraction), maximum)
    if count == 0:
        return None
    # Some edges are drawn twice; three times as many draws suffice for up to half of the edges.
    uniform = torch.rand(3 * count + 16, generator=stream(seed, _HELD_OUT, 0), dtype=torch.float64)
    entries = (uniform * walk.n_entries).long().to(walk.device)
    _, first = first_of_each(walk.keys(walk.rows_of(entries), walk.indices[entries].long()))
    entries = entries[first.sort().values[:count]]
    entries = entries[walk.weights(entries) > 0]  # tiny weights are lost to rounding in the running sum
    if not len(entries):
        return None
    rows, columns = walk.rows_of(entries), walk.indices[entries].long()
    keys, order = walk.keys(rows, columns).sort()
    weights = None if walk.cumulative is None else walk.weights(entries)[order]
    return HeldOutEdges(rows[order], columns[order], weights, keys)


def check_held_out(fraction: float) -> None:
    """Refuse a share of the edges that would leave too few to learn from."""
    if not 0 <= fraction <= 0.5:
        raise EigenmapError(f"held_out must be a share of the edges between 0 and 0.5, not {fraction!r}.")


def check_pairs(hops: int, start: str, teleport: float, lazy: float) -> None:
    """Refuse settings of `GraphPairs` that are out of range."""
    if hops not in (1, 2):
        raise EigenmapError(f"hops must be 1 or 2, not {hops!r}.")
    if start not in get_args(Start):
        raise EigenmapError(f'start must be "degree", "uniform" or "balanced", not {start!r}.')
    for name, share in {"teleport": teleport, "lazy": lazy}.items():
        if not 0 <= share < 1:
            raise EigenmapError(f"{name} must be a probability below 1, not {share!r}.")
    if teleport + lazy >= 1:
        raise EigenmapError(f"teleport and lazy together must be below 1, not {teleport + lazy:g}.")


class GraphPairs:
    """Node numbers of the two ends of random walks, as a function of the step.

    `batch(step)` depends only on the seed and the step, so a killed run continues exactly where it was, and N processes
    together see exactly the batch that one would: each takes its rows of it. Random numbers are drawn on the CPU and
    are the same on every device.

    In a graph that is not symmetric (`directed="bipartite"`), each target has a row of sources. Then x and x+ are two
    sources of one target, and eigenvalues are the squared singular values of the normalised adjacency.

    Args:
        walk: the edges, on the device where batches are made.
        batch_size: pairs per batch, over all processes together.
        seed: seed of the walks.
        hops: number of steps from x to x+, 1 or 2.
        start: measure of x (with two hops, of the node between x and x+): "degree", "uniform", or "balanced", which is
            "degree" sampled with less noise.
        teleport: probability that x+ is drawn from the degree measure (that of sources, if not symmetric).
        lazy: probability that x+ is x.
        held_out: edges that no walk may use.
        rank: number of this process.
        world_size: number of processes.

    Example:
        >>> pairs = GraphPairs(graph.walk(), batch_size=1024)
        >>> nodes, neighbours, _ = pairs.batch(step=0)

    """

    def __init__(
        self,
        walk: Adjacency,
        batch_size: int,
        seed: int = 0,
        *,
        hops: int = 1,
        start: Start = "degree",
        teleport: float = 0.0,
        lazy: float = 0.0,
        held_out: HeldOutEdges | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        check_batch_size(batch_size, world_size)
        check_pairs(hops, start, teleport, lazy)
        self.walk, self.batch_size, self.seed = walk, batch_size, seed
        # Two sources of a target are two steps apart, one forward and one backward.
        self.hops, self.start = hops if walk.symmetric else 2, start
        self.teleport, self.lazy, self.held_out = teleport, lazy, held_out
        self.rank, self.world_size = rank, world_size
        self.centres = None if start == "degree" else walk.indptr.diff().nonzero()[:, 0]
        self.weights = _balancing_weights(walk) if start == "balanced" else None
        self.rounds = 1 if held_out is None else _rounds(walk, held_out, self.hops)

    @property
    def device(self) -> torch.device:
        """Device on which batches are made."""
        return self.walk.device

    def batch(self, step: int) -> Batch:
        """Return this process's part of batch `step`: two tensors of node numbers, and weights or None."""
        whole = self._draw(self.batch_size, stream(self.seed, _PAIRS, step), self.teleport, self.lazy)
        x, x_plus = (part.chunk(self.world_size)[self.rank] for part in (whole.x, whole.x_plus))
        weights = None if whole.kernel is None else whole.kernel.chunk(self.world_size)[self.rank]
        return Batch(x, x_plus, weights)

    def pairs(self, generator: torch.Generator, batch_size: int, count: int) -> Iterator[Batch]:
        """Yield `count` pairs of the walk, without teleport and laziness, for collecting moments."""
        for start in range(0, count, batch_size):
            yield self._draw(min(batch_size, count - start), generator, teleport=0.0, lazy=0.0)

    def transitions(self) -> tuple[Tensor, Tensor]:
        """Return the exact distribution of `pairs`: the measure m (n,) of centres and the sparse steps P (n, n).

        With one hop (x, x+) = (centre, step); with two hops both are steps. Held-out edges are left out.
        """
        rows, columns = self.walk.edges()
        values = self.walk.weights(torch.arange(len(rows), device=self.device))
        kept = ~self._is_held_out(rows, columns)
        values = values * kept
        before, after = self.walk.degrees(), self._row_sums(values)
        start = (before > 0).double() if self.start == "uniform" else before
        # A walk over a held-out edge is drawn again from its start: probability that `hops` steps avoid such edges.
        m = start * (after / before.clamp(min=1e-300)) ** self.hops
        steps = values / after.clamp(min=1e-300)[rows]
        places, shape = torch.stack([rows, columns]), 2 * (self.walk.n_nodes,)
        P = sparse_coo(places, steps, shape, coalesced=True)
        return m / m.sum(), P

    def _row_sums(self, values: Tensor) -> Tensor:
        sums = torch.cat([values.new_zeros(1), values.cumsum(0)])
        return sums[self.walk.indptr].diff()

    def held_out_pairs(self, generator: torch.Generator, batch_size: int, count: int) -> Iterator[Batch]:
        """Yield at least `count` pairs over held-out edges, taking each edge in turn.

        With two hops, the first step is over a held-out edge and the second over any edge.
        """
        if self.held_out is None:
            yield from self.pairs(generator, batch_size, count)
            return
        edges = self.held_out
        passes = 1 if self.hops == 1 else max(1, min(8, count // len(edges.keys)))
        for _ in range(passes):
            for start in range(0, len(edges.keys), batch_size):
                part = slice(start, start + batch_size)
                centre, x = edges.rows[part], edges.columns[part]
                x_plus = (
                    centre if self.hops == 1 else self.walk.neighbour(centre, self._uniform(1, len(x), generator)[0])
                )
                yield Batch(x, x_plus, None if edges.weights is None else edges.weights[part])

    def _draw(self, count: int, generator: torch.Generator, teleport: float, lazy: float) -> Batch:
        uniform = self._uniform(3 * self.rounds + 2, count, generator)
        centre, x, x_plus, bad = self._walks(uniform[:3])
        for again in range(1, self.rounds):
            *others, still_bad = self._walks(uniform[3 * again : 3 * again + 3])
            centre, x, x_plus = (
                torch.where(bad, other, first) for other, first in zip(others, (centre, x, x_plus), strict=True)
            )
            bad = bad & still_bad
        what, where = uniform[-2], uniform[-1]
        if teleport or self.held_out is not None:
            # Walks that still use a held-out edge after all rounds become teleports.
            x_plus = torch.where(bad | (what < teleport), self.walk.column(where), x_plus)
        if lazy:
            x_plus = torch.where(what > 1 - lazy, x, x_plus)
        return Batch(x, x_plus, None if self.weights is None else self.weights[centre])

    def _walks(self, uniform: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the starts of walks, their pairs, and which of them use a held-out edge."""
        centre = self._centres(uniform[0])
        first = self.walk.neighbour(centre, uniform[1])
        bad = self._is_held_out(centre, first)
        if self.hops == 1:
            return centre, centre, first, bad
        second = self.walk.neighbour(centre, uniform[2])
        return centre, first, second, bad | self._is_held_out(centre, second)

    def _centres(self, uniform: Tensor) -> Tensor:
        """Return the nodes at which walks start."""
        if self.centres is None:
            return self.walk.centre(uniform)
        if self.start == "uniform":
            return self.centres[(uniform * len(self.centres)).long()]
        # Numbers below the share draw from one measure, the rest from the other; both are rescaled to (0, 1).
        below = uniform < _UNIFORMLY
        stretched = torch.where(below, uniform / _UNIFORMLY, (uniform - _UNIFORMLY) / (1 - _UNIFORMLY))
        stretched = stretched.clamp_(0, 1 - 2**-53)  # rounding
        equally = self.centres[(stretched * len(self.centres)).long()]
        return torch.where(below, equally, self.walk.centre(stretched))

    def _is_held_out(self, rows: Tensor, columns: Tensor) -> Tensor:
        if self.held_out is None:
            return torch.zeros_like(rows, dtype=torch.bool)
        return self.held_out.contain(self.walk.keys(rows, columns))

    def _uniform(self, rows: int, count: int, generator: torch.Generator) -> Tensor:
        numbers = torch.rand(rows, count, generator=generator, dtype=torch.float64)
        if self.device.type != "cuda":
            return numbers
        return numbers.pin_memory().to(self.device, non_blocking=True)


class NodeBlocks:
    """The paper's sampler: the block of D^-1/2 W D^-1/2 between two random sets of nodes.

    Two independent permutations of the nodes are cut into blocks of `batch_size` (the remainder is dropped), and an
    epoch visits all pairs of blocks. Rows and columns without an edge in the block are left out. On OGBN-Products an
    epoch has 149^2 steps with 16,384 nodes per side, of which more than 70 % have no edge in the block.

    The published code scales each feature so that its mean squared norm over rows and columns is 1,

        R = psi^T A psi+ / s^2,   s_j^2 = (|psi_j|^2 + |psi+_j|^2) / 2,   A the block

    Our objectives scale features by the mean of their squares over all B + B' nodes, and divide by B B', so the kernel
    of a batch is 2 B B' / (B + B') times the block. R shrinks with the share of the edges that are in a block.

    Args:
        walk: the edges, symmetric.
        batch_size: nodes per side; at most the number of nodes.
        seed: seed of the permutations.

    Example:
        >>> rows, columns, K = NodeBlocks(graph.walk(), batch_size=1024).batch(step=0)

    """

    def __init__(self, walk: Adjacency, batch_size: int, seed: int = 0) -> None:
        if not walk.symmetric:
            raise EigenmapError('Node blocks need a symmetric graph: choose directed="symmetrise".')
        if batch_size < 2:
            raise EigenmapError(f"A block needs at least 2 nodes, not {batch_size}.")
        self.walk, self.seed = walk, seed
        self.batch_size = min(batch_size, walk.n_nodes)
        self.blocks = walk.n_nodes // self.batch_size
        self.scale = walk.degrees().clamp(min=1e-300).rsqrt()
        self._epoch: tuple[int, Tensor, Tensor, Tensor] | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Number of pairs of blocks."""
        return self.blocks**2

    def nodes(self, step: int) -> tuple[Tensor, Tensor]:
        """Return the nodes of the two blocks, including those without an edge."""
        rows, columns, _ = self._order(step)
        a, b = divmod(step % self.steps_per_epoch, self.blocks)
        size = self.batch_size
        return rows[a * size : (a + 1) * size], columns[b * size : (b + 1) * size]

    def batch(self, step: int) -> Batch:
        """Return the nodes of block `step` that have an edge in it, and the kernel between them."""
        rows, columns = self.nodes(step)
        r, c, w = self._entries(step, rows)
        if len(r) < 2:  # too few entries to drop rows by; an empty block has no effect
            return Batch(rows, columns, self._kernel(r, c, w, len(rows), len(columns)))
        kept_rows, r = torch.unique(r, return_inverse=True)
        kept_columns, c = torch.unique(c, return_inverse=True)
        if min(len(kept_rows), len(kept_columns)) < 2:
            return Batch(rows, columns, self._kernel(kept_rows[r], kept_columns[c], w, len(rows), len(columns)))
        kernel = self._kernel(r, c, w, len(kept_rows), len(kept_columns))
        return Batch(rows[kept_rows], columns[kept_columns], kernel)

    def _entries(self, step: int, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows, columns and values of the entries of the normalised adjacency in the block."""
        _, _, places = self._order(step)
        lengths = self.walk.indptr[rows + 1] - self.walk.indptr[rows]
        r = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), lengths)
        before = lengths.cumsum(0) - lengths
        entries = torch.arange(len(r), device=rows.device) + (self.walk.indptr[rows] - before)[r]
        neighbours = self.walk.indices[entries].long()
        first = (step % self.steps_per_epoch) % self.blocks * self.batch_size
        c = places[neighbours] - first
        inside = (c >= 0) & (c < self.batch_size)
        entries, neighbours, r, c = entries[inside], neighbours[inside], r[inside], c[inside]
        return r, c, self.walk.weights(entries) * self.scale[rows[r]] * self.scale[neighbours]

    def _kernel(self, r: Tensor, c: Tensor, w: Tensor, rows: int, columns: int) -> Tensor:
        values = (w * (2 * rows * columns / (rows + columns))).float()
        return sparse_coo(torch.stack([r, c]), values, (rows, columns)).coalesce()

    def _order(self, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the two permutations of this epoch, and the position of every node in the second."""
        epoch = step // self.steps_per_epoch
        if self._epoch is None or self._epoch[0] != epoch:
            generator = stream(self.seed, _BLOCKS, epoch)
            n, device = self.walk.n_nodes, self.walk.device
            rows, columns = (torch.randperm(n, generator=generator).to(device) for _ in range(2))
            places = torch.empty_like(columns)
            places[columns] = torch.arange(n, device=device)
            self._epoch = (epoch, rows, columns, places)
        return self._epoch[1:]


def _rounds(walk: Adjacency, held_out: HeldOutEdges, hops: int) -> int:
    """Return the number of draws after which nearly all walks avoid the held-out edges."""
    weight = len(held_out.keys) if held_out.weights is None else float(held_out.weights.sum())
    total = walk.n_entries if walk.cumulative is None else float(walk.cumulative[-1])
    share = min((1 + walk.symmetric) * weight / total, 1.0)
    hit = min(max(1 - (1 - share) ** hops, 1e-9), 1 - 1e-9)
    return min(max(math.ceil(math.log(_LEFT) / math.log(hit)), _FEWEST_ROUNDS), _MOST_ROUNDS)


def _balancing_weights(walk: Adjacency) -> Tensor:
    """Return pi divided by the sampling measure for every node, float32; 0 for nodes without an edge."""
    degrees = walk.degrees()
    pi, u = degrees / degrees.sum(), (degrees > 0) / (degrees > 0).sum()
    drawn = _UNIFORMLY * u + (1 - _UNIFORMLY) * pi
    return torch.where(degrees > 0, pi / drawn.clamp(min=1e-300), 0.0).float()


def first_of_each(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct keys, sorted, and the position at which each first occurs."""
    ordered, order = keys.sort(stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first], order[first]
