"""BGRL (Thakoor et al., ICLR 2022): bootstrapped node representations from a GCN encoder, without negatives.

There are two views of the graph, each with edges dropped and feature columns masked at random. An online encoder and a
predictor predict the representation of the other view by a slowly moving copy of the encoder:

    loss = 2 - cos(q(f(view 1)), f_ema(view 2)) - cos(q(f(view 2)), f_ema(view 1)),   f_ema <- tau f_ema + (1 - tau) f

tau rises from 0.99 to 1 along a cosine. Nodes are embedded from the whole graph without dropping anything; a new node
needs its edges.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.graphs.rivals.features import Features, FirstLayer, mask_columns, widths
from benchmarks.graphs.rivals.propagation import csr_tensor, gcn_operator, propagate


@dataclass(frozen=True)
class Settings:
    """Widths, rates and the two views' probabilities; the defaults are near the published ones of all five sets."""

    hidden: int = 512
    dim: int = 256
    predictor: int = 512
    steps: int = 2000
    warmup: int = 200
    learning_rate: float = 5e-4
    weight_decay: float = 1e-5
    edge_drop: tuple[float, float] = (0.4, 0.3)
    feature_drop: tuple[float, float] = (0.2, 0.2)
    momentum: float = 0.99


GRID = (Settings(), Settings(learning_rate=1e-3, edge_drop=(0.2, 0.4), feature_drop=(0.4, 0.3)))
"""Settings to choose from by validation labels."""


class Encoder(nn.Module):
    """Two graph convolutions with BN and PReLU."""

    def __init__(self, in_features: Sequence[int], hidden: int, dim: int) -> None:
        super().__init__()
        self.first, self.second = FirstLayer(in_features, hidden), nn.Linear(hidden, dim)
        self.norm_first, self.norm_second = nn.BatchNorm1d(hidden, momentum=0.01), nn.BatchNorm1d(dim, momentum=0.01)
        self.act_first, self.act_second = nn.PReLU(), nn.PReLU()

    def forward(self, x: Features, operator: Tensor) -> Tensor:
        h = self.act_first(self.norm_first(propagate(operator, self.first(x))))
        return self.act_second(self.norm_second(propagate(operator, self.second(h))))


class EdgeDrop:
    """Operator of a graph with undirected edges dropped at random; the positions of the entries never change."""

    def __init__(self, matrix: sparse.csr_matrix, device: torch.device | str) -> None:
        looped = (matrix + sparse.eye(matrix.shape[0], format="csr")).tocsr()
        looped.sort_indices()
        self.template = gcn_operator(matrix, device)
        row = np.repeat(np.arange(looped.shape[0]), np.diff(looped.indptr))
        column = looped.indices.astype(np.int64)
        pair = np.minimum(row, column) * looped.shape[0] + np.maximum(row, column)
        self.edge = torch.from_numpy(np.unique(pair, return_inverse=True)[1]).to(device)
        self.row, self.column = torch.from_numpy(row).to(device), torch.from_numpy(column).to(device)
        self.n_edges = int(self.edge.max()) + 1

    def __call__(self, probability: float) -> Tensor:
        """Return D^-1/2 (A + I) D^-1/2 of the remaining edges; self-loops stay."""
        kept = torch.rand(self.n_edges, device=self.edge.device) >= probability
        weight = (kept[self.edge] | (self.row == self.column)).float()
        degree = torch.zeros(self.template.shape[0], device=weight.device).index_add_(0, self.row, weight)
        weight = weight * (degree[self.row] * degree[self.column]).rsqrt()
        places = self.template.crow_indices(), self.template.col_indices()
        return csr_tensor(*places, weight, self.template.shape)


def embed(
    x: Features, matrix: sparse.csr_matrix, how: Settings | None = None, *, seed: int = 0
) -> tuple[Encoder, Tensor]:
    """The trained encoder, and the representations of all nodes of the graph it was trained on."""
    how = how or Settings()
    torch.manual_seed(seed)
    device = x[0].device
    drop = EdgeDrop(matrix, device)
    online = Encoder(widths(x), how.hidden, how.dim).to(device)
    target = copy.deepcopy(online).requires_grad_(False)
    predictor = nn.Sequential(nn.Linear(how.dim, how.predictor), nn.PReLU(), nn.Linear(how.predictor, how.dim))
    predictor.to(device)
    parameters = [*online.parameters(), *predictor.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=how.learning_rate, weight_decay=how.weight_decay, fused=True)
    for step in range(how.steps):
        for group in optimizer.param_groups:
            group["lr"] = how.learning_rate * _rate(step, how.steps, how.warmup)
        views = [
            (tuple(mask_columns(part, feature) for part in x), drop(edge))
            for feature, edge in zip(how.feature_drop, how.edge_drop, strict=True)
        ]
        guesses = [predictor(online(*view)) for view in views]
        with torch.no_grad():
            truths = [target(*view) for view in views]
        loss = 2 - sum(
            F.cosine_similarity(guess, truth, dim=1).mean()
            for guess, truth in zip(guesses, reversed(truths), strict=True)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tau = 1 - (1 - how.momentum) * (1 + math.cos(math.pi * step / how.steps)) / 2
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                slow.lerp_(fast, 1 - tau)
    return online, represent(online, x, drop.template)


@torch.no_grad()
def represent(encoder: Encoder, x: Features, operator: Tensor) -> Tensor:
    encoder.eval()
    return encoder(x, operator)


def _rate(step: int, steps: int, warmup: int) -> float:
    if step < warmup:
        return (step + 1) / warmup
    return (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup))) / 2
