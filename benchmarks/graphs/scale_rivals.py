"""Supervised rivals on the synthetic graph: an MLP on features and a GCN, full batch and on sampled neighbourhoods."""

from __future__ import annotations

import time
import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.graphs.synthetic import CLASSES, FEATURES, Data
from eigenmap.data import Adjacency


def mlp(width: int = 512) -> nn.Module:
    """The paper's plain MLP: three layers."""
    return nn.Sequential(
        nn.Linear(FEATURES, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(width, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(width, CLASSES),
    )


def fit_mlp(data: Data, seconds: float, epochs: int = 30, batch_size: int = 1024) -> tuple[nn.Module, float]:
    """Return the MLP after the given epochs (or seconds) of Adam, and its accuracy on test nodes."""
    network = mlp().to(data.x.device)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=1e-4, fused=True)
    began = time.perf_counter()
    for _ in range(epochs):
        order = data.train[torch.randperm(len(data.train), device=data.x.device)]
        for nodes in order.split(batch_size):
            if len(nodes) < 2:
                continue
            loss = F.cross_entropy(network(data.x[nodes]), data.y[nodes])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if time.perf_counter() - began > seconds:
            break
    return network, accuracy(network.eval(), data)


@torch.no_grad()
def accuracy(network: nn.Module, data: Data, at_most: int = 200_000) -> float:
    nodes = data.test[:at_most]
    hits = [(network(data.x[part]).argmax(1) == data.y[part]).sum() for part in nodes.split(65_536)]
    return float(torch.stack(hits).sum() / len(nodes))


class GCN(nn.Module):
    """Two layers, H' = relu(S H W) with S = D^-1 A: each node averages its neighbours (sampled: and itself)."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, width), nn.Linear(width, CLASSES)

    def forward(self, x: Tensor, S: Tensor) -> Tensor:
        """Logits of all nodes, full batch."""
        h = F.dropout(F.relu(self.first(S @ x)), 0.5, self.training)
        return S @ self.second(h)

    def sampled(self, x: Tensor, walk: Adjacency, nodes: Tensor, fanout: int = 10) -> Tensor:
        """Logits of some nodes from `fanout` random neighbours each, twice."""
        ring = _around(walk, nodes, fanout)
        second = _around(walk, ring.flatten(), fanout)
        h = F.relu(self.first(x[second].mean(1)))
        logits: Tensor = self.second(h.view(len(nodes), fanout + 1, -1).mean(1))
        return logits


def _around(walk: Adjacency, nodes: Tensor, fanout: int) -> Tensor:
    """A node and `fanout` random neighbours of it, (B, fanout + 1); itself again where it has none."""
    many = nodes[:, None].expand(-1, fanout).reshape(-1)
    uniform = torch.rand(len(many), dtype=torch.float64, device=nodes.device)
    alone = walk.indptr[many + 1] == walk.indptr[many]
    found = torch.where(alone, many, walk.neighbour(many, uniform))
    return torch.cat([nodes[:, None], found.view(len(nodes), fanout)], 1)


def averaging(walk: Adjacency) -> Tensor:
    """S = D^-1 A as a sparse CSR matrix (neighbours only: with fifty of them the node itself hardly counts)."""
    degrees = walk.indptr.diff()
    values = (1 / degrees.clamp(min=1).float()).repeat_interleave(degrees)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that its CSR matrices are in beta
        # 32-bit numbers of entries: what every sparse library can multiply by.
        return torch.sparse_csr_tensor(walk.indptr.int(), walk.indices.int(), values, (walk.n_nodes, walk.n_nodes))


def fit_gcn(data: Data, seconds: float, epochs: int = 100) -> tuple[GCN, Tensor, float, int]:
    """Return the GCN after the given epochs (or seconds) of full-batch Adam: network, S, test accuracy, epochs."""
    S = averaging(data.walk)
    network = GCN().to(data.x.device)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2, weight_decay=1e-5)
    smooth = (S @ data.x).detach()  # the first average does not change, which saves half of the products
    began, done = time.perf_counter(), 0
    while done < epochs and time.perf_counter() - began < seconds:
        network.train()
        h = F.dropout(F.relu(network.first(smooth)), 0.5)
        logits = _Average.apply(network.second(h), S)
        loss = F.cross_entropy(logits[data.train], data.y[data.train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done += 1
        loss.item()  # wait, so that the clock is right
    network.eval()
    with torch.no_grad():
        hits = network(data.x, S)[data.test].argmax(1) == data.y[data.test]
    return network, S, float(hits.double().mean()), done


class _Average(torch.autograd.Function):
    """S H with the transposed product by hand: S^T G = A D^-1 G, and A is symmetric."""

    @staticmethod
    def forward(ctx: object, h: Tensor, S: Tensor) -> Tensor:
        ctx.S = S  # type: ignore[attr-defined]
        return S @ h

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> tuple[Tensor, None]:
        S: Tensor = ctx.S  # type: ignore[attr-defined]
        degrees = S.crow_indices().diff().clamp(min=1)[:, None]
        return (S @ (gradient / degrees)) * degrees, None
