"""GCN (Kipf and Welling, ICLR 2017), trained on the whole graph or on sampled neighbourhoods.

    h <- dropout(relu(BN(S h W))),   S = D^-1/2 (A + I) D^-1/2

Sampled: a layer sees at most `fanout` random neighbours of each node (GraphSAGE's sampler, Hamilton et al. 2017), so
that the memory of a step does not grow with the graph. A node i and its sampled neighbours j keep GCN's weights, the
neighbours scaled by degree / sampled so that the expectation is that of S h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.graphs.rivals.features import Features, FirstLayer, rows, widths
from benchmarks.graphs.rivals.mlp import Best, accuracy, descend
from benchmarks.graphs.rivals.propagation import propagate


@dataclass(frozen=True)
class Settings:
    """One point of the grid."""

    hidden: int = 256
    layers: int = 2
    dropout: float = 0.5
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    batch_norm: bool = True
    epochs: int = 200
    check_every: int = 4


GRID = (
    Settings(),
    Settings(hidden=512, dropout=0.7),
    Settings(batch_norm=False, dropout=0.6, weight_decay=5e-3),
    Settings(hidden=512, layers=3, dropout=0.5, learning_rate=0.005),
    Settings(hidden=64, dropout=0.8, weight_decay=5e-2),
)
"""Settings to choose from on the validation nodes."""


class GCN(nn.Module):
    """Graph convolutions; `operators` is one sparse matrix for all layers, or one per layer (sampled blocks)."""

    def __init__(self, in_features: Sequence[int], n_classes: int, how: Settings) -> None:
        super().__init__()
        sizes = [*[how.hidden] * (how.layers - 1), n_classes]
        first = FirstLayer(in_features, sizes[0], how.dropout)
        self.linears = nn.ModuleList([first, *(nn.Linear(a, b) for a, b in pairwise(sizes))])
        self.norms = nn.ModuleList(nn.BatchNorm1d(size) if how.batch_norm else nn.Identity() for size in sizes[:-1])
        self.dropout = how.dropout

    def forward(self, x: Features, operators: Tensor | list[Tensor]) -> Tensor:
        """Class scores of all nodes (or of the last block's rows)."""
        h: Features | Tensor = x
        for place, linear in enumerate(self.linears):
            h = linear(h)
            h = operators[place] @ h if isinstance(operators, list) else propagate(operators, h)
            if place < len(self.norms):
                h = F.dropout(F.relu(self.norms[place](h)), self.dropout, self.training)
        return h


def fit(
    x: Features,
    operator: Tensor,
    y: Tensor,
    train: Tensor,
    validation: Tensor,
    *,
    n_classes: int,
    how: Settings,
    seed: int = 0,
) -> tuple[GCN, float]:
    """Full-batch training; the network of the best validation epoch and its accuracy there."""
    torch.manual_seed(seed)
    net = GCN(widths(x), n_classes, how).to(y.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=how.learning_rate, weight_decay=how.weight_decay, fused=True)
    best = Best(net)
    for epoch in range(how.epochs):
        net.train()
        loss = F.cross_entropy(net(x, operator)[train], y[train])
        descend(optimizer, loss)
        if (epoch + 1) % how.check_every == 0:
            best.keep(accuracy(scores(net, x, operator)[validation], y[validation]))
    return best.restored()


@torch.no_grad()
def scores(net: GCN, x: Features, operator: Tensor) -> Tensor:
    """Scores of all nodes of the graph behind `operator`, in evaluation mode."""
    net.eval()
    return net(x, operator)


class Neighbourhoods:
    """Random neighbourhoods of some nodes, as small matrices from one layer's nodes to the next's."""

    def __init__(self, matrix: sparse.csr_matrix, fanout: int, seed: int = 0) -> None:
        self.indptr, self.indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        self.fanout = fanout
        self.random = np.random.default_rng(seed)

    def blocks(self, nodes: np.ndarray, layers: int) -> tuple[np.ndarray, list[sparse.csr_matrix]]:
        """Return the input nodes, and one matrix per layer, first layer first; the last has one row per node."""
        blocks = []
        for _ in range(layers):
            nodes, block = self._block(nodes)
            blocks.insert(0, block)
        return nodes, blocks

    def _block(self, rows: np.ndarray) -> tuple[np.ndarray, sparse.csr_matrix]:
        degree = self.indptr[rows + 1] - self.indptr[rows]
        whole = degree <= self.fanout
        # Small neighbourhoods are taken whole, large ones drawn with replacement: both have the right expectation.
        taken = np.where(whole, degree, self.fanout)
        row = np.repeat(np.arange(len(rows)), taken)
        place = np.arange(len(row)) - np.repeat(np.cumsum(taken) - taken, taken)
        drawn = (self.random.random(len(row)) * degree[row]).astype(np.int64)
        column = self.indices[self.indptr[rows[row]] + np.where(whole[row], place, drawn)]
        weight = (degree / np.maximum(taken, 1))[row]
        looped = self.indptr[column + 1] - self.indptr[column] + 1
        weight = weight / np.sqrt((degree[row] + 1.0) * looped)
        row, column = np.concatenate([row, np.arange(len(rows))]), np.concatenate([column, rows])
        weight = np.concatenate([weight, 1 / (degree + 1.0)])
        inputs, local = np.unique(column, return_inverse=True)
        return inputs, sparse.csr_matrix((weight, (row, local)), shape=(len(rows), len(inputs)))


def block_tensor(block: sparse.csr_matrix, device: torch.device | str) -> Tensor:
    """A sparse tensor that autograd can multiply by (COO: its transpose is free)."""
    coo = block.tocoo()
    places = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64)).to(device)
    values = torch.from_numpy(coo.data.astype(np.float32)).to(device)
    return torch.sparse_coo_tensor(places, values, coo.shape, is_coalesced=True, check_invariants=False)


def fit_sampled(
    x: Features,
    matrix: sparse.csr_matrix,
    operator: Tensor,
    y: Tensor,
    train: Tensor,
    validation: Tensor,
    *,
    n_classes: int,
    how: Settings,
    fanout: int = 10,
    batch_size: int = 512,
    epochs: int = 20,
    seed: int = 0,
) -> tuple[GCN, float]:
    """Train on sampled neighbourhoods and validate on the whole graph; features are not moved."""
    torch.manual_seed(seed)
    net = GCN(widths(x), n_classes, how).to(y.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=how.learning_rate, weight_decay=how.weight_decay, fused=True)
    sampler = Neighbourhoods(matrix, fanout, seed)
    best = Best(net)
    for _ in range(epochs):
        for batch in torch.split(train[torch.randperm(len(train)).to(train.device)], batch_size):
            if len(batch) < 2:
                continue
            net.train()
            loss = F.cross_entropy(sampled_scores(net, x, sampler, batch), y[batch])
            descend(optimizer, loss)
        best.keep(accuracy(scores(net, x, operator)[validation], y[validation]))
    return best.restored()


def sampled_scores(net: GCN, x: Features, sampler: Neighbourhoods, nodes: Tensor) -> Tensor:
    """Scores of some nodes from random neighbourhoods of theirs, in the mode the network is in."""
    device = nodes.device
    inputs, blocks = sampler.blocks(nodes.cpu().numpy(), len(net.linears))
    return net(rows(x, torch.from_numpy(inputs).to(device)), [block_tensor(block, device) for block in blocks])
