"""node2vec (Grover and Leskovec, KDD 2016): biased random walks, then skip-gram with negative sampling.

A walk that came from t to v continues to x with a probability proportional to

    1/p  if x = t,      1  if x is a neighbour of t,      1/q  otherwise.

Steps are drawn by rejection (propose a uniform neighbour of v, accept with its weight over the largest), so that no
table of second-order probabilities is needed and a graph of millions of nodes fits; whether x and t are neighbours is a
binary search in the sorted CSR row. All walks of a batch advance together as tensors, on any device.

Skip-gram over windows of the walks, negatives from degree^0.75:

    - log s(u_i . v_j) - sum_n log s(- u_i . v_n)

with sparse gradients: a step touches only the rows of its batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Settings:
    """The usual settings of the paper; walks roam if q is below 1, and stay close if it is above 1."""

    dim: int = 128
    p: float = 1.0
    q: float = 1.0
    length: int = 20
    window: int = 5
    walks_per_node: int = 10
    negatives: int = 1
    batch_walks: int = 256
    learning_rate: float = 0.01
    epochs: int = 1


class Walker:
    """Biased walks on an undirected graph, many at once."""

    def __init__(self, matrix: sparse.csr_matrix, p: float, q: float, device: torch.device | str = "cpu") -> None:
        matrix = matrix.tocsr()
        matrix.sort_indices()
        self.indptr = torch.from_numpy(matrix.indptr).long().to(device)
        self.indices = torch.from_numpy(matrix.indices).long().to(device)
        self.n = matrix.shape[0]
        # One sorted number per edge, so that "are i and j neighbours" is a single search.
        self.keys = torch.repeat_interleave(torch.arange(self.n, device=device), self.degrees()) * self.n + self.indices
        self.back, self.near, self.far = 1 / p, 1.0, 1 / q

    def degrees(self) -> Tensor:
        return self.indptr[1:] - self.indptr[:-1]

    def neighbour(self, nodes: Tensor) -> Tensor:
        """Return a uniform neighbour of each node; a node without neighbours is its own."""
        degree = self.indptr[nodes + 1] - self.indptr[nodes]
        drawn = (torch.rand(len(nodes), device=nodes.device, dtype=torch.float64) * degree).long()
        place = (self.indptr[nodes] + drawn).clamp(max=max(0, len(self.indices) - 1))
        return torch.where(degree > 0, self.indices[place], nodes) if len(self.indices) else nodes

    def linked(self, first: Tensor, second: Tensor) -> Tensor:
        """Tell whether an edge exists."""
        key = first * self.n + second
        place = torch.searchsorted(self.keys, key).clamp(max=len(self.keys) - 1)
        return self.keys[place] == key

    def step(self, previous: Tensor, current: Tensor, rounds: int = 1000) -> Tensor:
        """The next node of each walk, by rejection."""
        if self.back == self.near == self.far:
            return self.neighbour(current)
        largest = max(self.back, self.near, self.far)
        following = current.clone()
        waiting = torch.arange(len(current), device=current.device)
        for _ in range(rounds):
            proposed = self.neighbour(current[waiting])
            weight = torch.where(self.linked(previous[waiting], proposed), self.near, self.far)
            weight = torch.where(proposed == previous[waiting], self.back, weight)
            # A node without neighbours stays: its proposal is itself.
            stays = proposed == current[waiting]
            accepted = (torch.rand(len(waiting), device=weight.device) * largest < weight) | stays
            following[waiting[accepted]] = proposed[accepted]
            waiting = waiting[~accepted]
            if len(waiting) == 0:
                return following
        raise RuntimeError(f"a walk could not continue in {rounds} rounds: p or q is too extreme for this graph")

    def walks(self, starts: Tensor, length: int) -> Tensor:
        """(len(starts), length) nodes."""
        path = [starts, self.neighbour(starts)]
        while len(path) < length:
            path.append(self.step(path[-2], path[-1]))
        return torch.stack(path[:length], dim=1)


def windows(walks: Tensor, window: int) -> tuple[Tensor, Tensor]:
    """Pairs (centre, context) at most `window` apart in a walk, both orders."""
    length = walks.shape[1]
    pairs = [(walks[:, :-gap].reshape(-1), walks[:, gap:].reshape(-1)) for gap in range(1, min(window, length - 1) + 1)]
    first, second = torch.cat([a for a, _ in pairs]), torch.cat([b for _, b in pairs])
    return torch.cat([first, second]), torch.cat([second, first])


def embed(
    matrix: sparse.csr_matrix, how: Settings | None = None, *, seed: int = 0, device: torch.device | str = "cpu"
) -> Tensor:
    """(n, dim) node embeddings, float32; walks of a node without edges pair it with itself."""
    how = how or Settings()
    torch.manual_seed(seed)
    walker = Walker(matrix, how.p, how.q, device)
    centre = nn.Embedding(walker.n, how.dim, sparse=True).to(device)
    context = nn.Embedding(walker.n, how.dim, sparse=True).to(device)
    nn.init.uniform_(centre.weight, -0.5 / how.dim, 0.5 / how.dim)
    nn.init.zeros_(context.weight)
    optimizer = torch.optim.SparseAdam([centre.weight, context.weight], lr=how.learning_rate)
    noise = walker.degrees().double().clamp(min=0).pow(0.75)
    steps_left = steps = how.epochs * how.walks_per_node * -(-walker.n // how.batch_walks)
    for _ in range(how.epochs * how.walks_per_node):
        for starts in torch.split(torch.randperm(walker.n, device=device), how.batch_walks):
            i, j = windows(walker.walks(starts, how.length), how.window)
            # Shared by the whole batch: the expectation is that of `negatives` draws per pair, with less noise.
            shared = _draw(noise, 256)
            u, v = centre(i), context(j)
            attraction = -F.logsigmoid((u * v).sum(1)).mean()
            repulsion = -F.logsigmoid(-(u @ context(shared).T)).mean() * how.negatives
            optimizer.zero_grad()
            (attraction + repulsion).backward()
            for group in optimizer.param_groups:
                group["lr"] = how.learning_rate * max(steps_left / steps, 0.01)
            steps_left -= 1
            optimizer.step()
    return centre.weight.detach().clone()


def _draw(weights: Tensor, count: int) -> Tensor:
    """Indices in proportion to their weights, by a search in the running sum (multinomial stops at 2^24 entries)."""
    total = weights.cumsum(0)
    drawn = torch.rand(count, dtype=torch.float64, device=weights.device) * total[-1]
    return torch.searchsorted(total, drawn).clamp(max=len(weights) - 1)
