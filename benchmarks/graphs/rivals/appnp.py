"""APPNP (Gasteiger, Bojchevski and Günnemann, ICLR 2019): an MLP whose scores are propagated, trained through it.

Z^0 = MLP(x),   Z^l = (1 - a) S Z^(l-1) + a Z^0,   l = 1 ... 10,   S = D^-1/2 (A + I) D^-1/2
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.graphs.rivals import mlp
from benchmarks.graphs.rivals.features import Features, widths
from benchmarks.graphs.rivals.propagation import propagate

STEPS = 10


@dataclass(frozen=True)
class Settings:
    """One point of the grid."""

    restart: float = 0.1
    head: mlp.Fitting = field(default_factory=lambda: mlp.Fitting(width=256, layers=2, learning_rate=0.01))


GRID = (
    Settings(),
    Settings(restart=0.2),
    Settings(head=mlp.Fitting(width=256, layers=2, learning_rate=0.01, dropout=0.8, weight_decay=5e-3)),
    Settings(restart=0.5, head=mlp.Fitting(width=512, layers=3)),
)
"""Settings to choose from on the validation nodes."""


def spread(scores: Tensor, operator: Tensor, restart: float) -> Tensor:
    """Personalised PageRank of scores, differentiable."""
    z = scores
    for _ in range(STEPS):
        z = (1 - restart) * propagate(operator, z) + restart * scores
    return z


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
) -> tuple[nn.Module, float]:
    """Full-batch training; the network of the best validation epoch and its accuracy there."""
    torch.manual_seed(seed)
    net = mlp.network(widths(x), n_classes, how.head).to(y.device)
    rate, decay = how.head.learning_rate, how.head.weight_decay
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=decay, fused=True)
    best = mlp.Best(net)
    for epoch in range(how.head.epochs):
        net.train()
        loss = F.cross_entropy(spread(net(x), operator, how.restart)[train], y[train])
        mlp.descend(optimizer, loss)
        if (epoch + 1) % how.head.check_every == 0:
            best.keep(mlp.accuracy(scores(net, x, operator, how)[validation], y[validation]))
    return best.restored()


@torch.no_grad()
def scores(net: nn.Module, x: Features, operator: Tensor, how: Settings) -> Tensor:
    """Scores of all nodes, in evaluation mode."""
    net.eval()
    return spread(net(x), operator, how.restart)
