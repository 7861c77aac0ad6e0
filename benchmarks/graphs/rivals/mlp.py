"""A plain MLP classifier: three layers of width 512, on raw features or on any codes.

It is a rival itself (raw features), the head of two more (Laplacian eigenmap + MLP, node2vec + MLP), and the head of
ours, so that every row gets the same classifier.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.graphs.rivals.features import Features, FirstLayer, rows, widths

H, N, M = TypeVar("H"), TypeVar("N"), TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Fitting:
    """Training of a classifier by AdamW; the best epoch on the validation nodes is kept."""

    width: int = 512
    layers: int = 3
    dropout: float = 0.5
    learning_rate: float = 0.005
    weight_decay: float = 5e-4
    epochs: int = 200
    batch_size: int = 1024
    check_every: int = 4


GRID = (Fitting(), Fitting(dropout=0.7, weight_decay=5e-2))
"""Settings to choose from for every MLP, on the validation nodes."""


def network(in_features: Sequence[int], n_classes: int, how: Fitting) -> nn.Sequential:
    """`how.layers` linear layers with BN, ReLU and dropout between them."""
    layers: list[nn.Module] = [FirstLayer(in_features, how.width, how.dropout)]
    for _ in range(how.layers - 2):
        layers += [*_between(how), nn.Linear(how.width, how.width)]
    return nn.Sequential(*layers, *_between(how), nn.Linear(how.width, n_classes))


def _between(how: Fitting) -> list[nn.Module]:
    return [nn.BatchNorm1d(how.width), nn.ReLU(), nn.Dropout(how.dropout)]


class Best(Generic[M]):
    """The weights of a network at its highest validation accuracy."""

    def __init__(self, net: M) -> None:
        self.net, self.score, self.weights = net, -1.0, net.state_dict()

    def keep(self, score: float) -> None:
        """Keep the present weights if their score is the highest so far."""
        if score > self.score:
            self.score, self.weights = score, copy.deepcopy(self.net.state_dict())

    def restored(self) -> tuple[M, float]:
        """Return the network with those weights, and its score."""
        self.net.load_state_dict(self.weights)
        return self.net.eval(), self.score


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Take one step along the gradient of the loss."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def accuracy(scores: Tensor, y: Tensor) -> float:
    return float((scores.argmax(1) == y).double().mean())


@torch.no_grad()
def predict(net: nn.Module, x: Features, nodes: Tensor, block: int = 16_384) -> Tensor:
    """Scores of some nodes, in evaluation mode."""
    net.eval()
    return torch.cat([net(rows(x, part)) for part in torch.split(nodes, block)])


def fit(
    x: Features, y: Tensor, train: Tensor, validation: Tensor, *, n_classes: int, how: Fitting, seed: int = 0
) -> tuple[nn.Sequential, float]:
    """The network of the best validation epoch, and its accuracy there."""
    torch.manual_seed(seed)
    net = network(widths(x), n_classes, how).to(y.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=how.learning_rate, weight_decay=how.weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, how.epochs)
    best = Best(net)
    for epoch in range(how.epochs):
        net.train()
        for batch in torch.split(torch.randperm(len(train), device=y.device), how.batch_size):
            if len(batch) < 2:  # BN has no statistics of one row
                continue
            loss = F.cross_entropy(net(rows(x, train[batch])), y[train[batch]])
            descend(optimizer, loss)
        schedule.step()
        if (epoch + 1) % how.check_every == 0:
            best.keep(accuracy(predict(net, x, validation), y[validation]))
    return best.restored()


def pick(grid: Sequence[H], fitted: Callable[[H], tuple[N, float]]) -> tuple[N, float, H]:
    """Fit every setting, keep the first of those with the best validation accuracy."""
    tried = [(*fitted(how), how) for how in grid]
    return max(tried, key=lambda result: result[1])
