"""GLNN (Zhang, Liu, Sun and Shah, ICLR 2022): an MLP that learns the predictions of a trained graph network.

    loss = w * cross-entropy on labels + (1 - w) * KL(teacher || student) on all nodes of the training graph

At inference it needs no graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.graphs.rivals import mlp
from benchmarks.graphs.rivals.features import Features, rows, widths

MANY = 10_000
"""Number of nodes from which half of the epochs are enough."""


@dataclass(frozen=True)
class Settings:
    """One point of the grid."""

    labels: float = 0.0
    head: mlp.Fitting = field(default_factory=mlp.Fitting)


GRID = (Settings(), Settings(labels=0.5), Settings(head=mlp.Fitting(dropout=0.7, weight_decay=5e-2)))
"""Settings to choose from on the validation nodes."""


def fit(
    x: Features,
    teacher: Tensor,
    y: Tensor,
    train: Tensor,
    validation: Tensor,
    *,
    n_classes: int,
    how: Settings,
    seed: int = 0,
) -> tuple[nn.Sequential, float]:
    """The student of the best validation epoch; `teacher` are log-probabilities of all nodes of x."""
    torch.manual_seed(seed)
    net = mlp.network(widths(x), n_classes, how.head).to(y.device)
    rate, decay = how.head.learning_rate, how.head.weight_decay
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=decay, fused=True)
    known = torch.zeros_like(y, dtype=torch.bool)
    known[train] = True
    best = mlp.Best(net)
    # An epoch shows all nodes, not only those with labels: a large graph needs fewer.
    for epoch in range(how.head.epochs if len(y) < MANY else how.head.epochs // 2):
        net.train()
        for batch in torch.split(torch.randperm(len(y), device=y.device), 4 * how.head.batch_size):
            if len(batch) < 2:
                continue
            said = F.log_softmax(net(rows(x, batch)), dim=1)
            loss = (1 - how.labels) * F.kl_div(said, teacher[batch], log_target=True, reduction="batchmean")
            labelled = known[batch]
            if how.labels and bool(labelled.any()):
                loss = loss + how.labels * F.nll_loss(said[labelled], y[batch][labelled])
            mlp.descend(optimizer, loss)
        if (epoch + 1) % how.head.check_every == 0:
            best.keep(mlp.accuracy(mlp.predict(net, x, validation), y[validation]))
    return best.restored()
