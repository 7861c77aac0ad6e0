r"""Probe for few labels, which also uses the codes of nodes without labels.

All rows have norm 1. Three kinds of probes are fitted, and the one with the best accuracy on the validation nodes is
kept (the first if several are equal):

- the logistic probe, which uses labelled nodes only;
- *prototypes*: one centre per class, first the mean of its labelled rows. In each round every row of the pool is
  assigned to the classes with probabilities p = softmax(cosine / tau), and the centres become means weighted by p.
  A small tau makes p certain: entropy minimisation by alternation [1];
- *label spreading* [2] on the nearest-neighbour graph of the pool: F <- a S F + (1 - a) Y with
  S = D^-1/2 W D^-1/2, W_ij = max(cosine, 0). A row gets the mean F of its nearest rows in the pool.

    probe = fit_probe_few(Labelled(x_train, y_train), Labelled(x_validation, y_validation), pool=x)

[1] Grandvalet, Bengio, Semi-supervised Learning by Entropy Minimization, NeurIPS 2004.
[2] Zhou, Bousquet, Lal, Weston, Schölkopf, Learning with Local and Global Consistency, NeurIPS 2003.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from eigenmap.core.sparse import sparse_coo
from eigenmap.evaluation.checks import class_numbers
from eigenmap.evaluation.probe import LinearProbe
from eigenmap.evaluation.ranking import CodesLike, codes_as_tensor

POOL = 20_000
"""Maximum number of rows without labels that are used."""
TEMPERATURES = (0.05, 0.1, 0.2)
ROUNDS = (0, 10)
NEIGHBOURS = (5, 15)
SPREAD = (0.5, 0.9)
"""Candidates for tau, for the rounds of prototypes, for the neighbours in the graph, and for a."""
STEPS = 30
BLOCK = 2048


class Labelled(NamedTuple):
    """Codes of nodes and their classes."""

    x: Tensor
    y: Tensor


class Classifier(Protocol):
    """Interface of a classifier of codes."""

    def predict(self, features: CodesLike) -> Tensor:
        """Return the class number of each row."""

    def accuracy(self, features: CodesLike, labels: CodesLike) -> float:
        """Return the share of rows classified correctly."""


class PrototypeProbe(LinearProbe):
    """Predicts the class whose centre has the largest cosine; rows may have any norm."""


class SpreadProbe(NamedTuple):
    """Label spreading: the rows of a pool, their class scores, and the number of neighbours that count."""

    pool: Tensor
    scores: Tensor
    neighbours: int

    @torch.no_grad()
    def predict(self, features: CodesLike) -> Tensor:
        """Return the class number of each row."""
        x = F.normalize(codes_as_tensor(features, self.pool.device, self.pool.dtype), dim=1)
        parts = [torch.empty(0, dtype=torch.int64, device=self.pool.device)]
        for rows in torch.split(x, BLOCK):
            cosine, nearest = (rows @ self.pool.T).topk(min(self.neighbours, len(self.pool)), dim=1)
            parts.append((cosine.clamp(min=0)[..., None] * self.scores[nearest]).sum(1).argmax(1))
        return torch.cat(parts)

    def accuracy(self, features: CodesLike, labels: CodesLike) -> float:
        """Return the share of rows classified correctly."""
        truth = class_numbers(labels, len(features), "labels")
        return float((self.predict(features).cpu() == truth).double().mean())


@torch.no_grad()
def fit_probe_few(train: Labelled, validation: Labelled, pool: Tensor, plain: LinearProbe) -> Classifier:
    """Return the best of `plain`, prototypes and label spreading on the validation nodes."""
    best: Classifier = plain
    highest = plain.accuracy(*validation)
    unlabelled = F.normalize(pool[drawn(len(pool)).to(pool.device)], dim=1)
    candidates: list[Classifier] = [*prototypes(train, unlabelled), *spread(train, unlabelled)]
    for candidate in candidates:
        accuracy = candidate.accuracy(*validation)
        if accuracy > highest:
            best, highest = candidate, accuracy
    return best


def drawn(count: int) -> Tensor:
    """Return the indices of all `count` rows, or of `POOL` random ones if there are more."""
    if count <= POOL:
        return torch.arange(count)
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:POOL]


def prototypes(train: Labelled, pool: Tensor) -> Iterator[PrototypeProbe]:
    """Yield probes with class centres, as they are and refined on the pool."""
    x = F.normalize(train.x, dim=1)
    sums = F.one_hot(train.y).to(x).T @ x
    known = F.one_hot(train.y).sum(0) > 0
    # A class without a training node is never predicted.
    bias = torch.where(known, 0.0, -torch.inf).to(x)
    for rounds in ROUNDS:
        for tau in TEMPERATURES if rounds else TEMPERATURES[:1]:
            centres = F.normalize(sums, dim=1)
            for _ in range(rounds):
                p = (pool @ centres.T / tau + bias).softmax(1)
                centres = F.normalize(sums + p.T @ pool, dim=1)
            yield PrototypeProbe(centres, bias)


def spread(train: Labelled, pool: Tensor) -> Iterator[SpreadProbe]:
    """Yield probes with labels spread over the nearest-neighbour graph of labelled rows and pool."""
    rows = torch.cat([F.normalize(train.x, dim=1), pool])
    labels = torch.zeros(len(rows), int(train.y.max()) + 1).to(rows)
    share = F.one_hot(train.y).sum(0).clamp(min=1).to(rows)
    labels[torch.arange(len(train.y), device=rows.device), train.y] = 1 / share[train.y]  # classes have equal weight
    for neighbours in NEIGHBOURS:
        S = neighbour_graph(rows, neighbours)
        for a in SPREAD:
            scores = labels
            for _ in range(STEPS):
                scores = a * torch.sparse.mm(S, scores) + (1 - a) * labels
            # Rows that no label reached stay zero; the others become distributions.
            yield SpreadProbe(rows, scores / scores.sum(1, keepdim=True).clamp(min=1e-30), neighbours)


def neighbour_graph(rows: Tensor, neighbours: int) -> Tensor:
    """Return D^-1/2 W D^-1/2 of the symmetric nearest-neighbour graph of unit rows, sparse."""
    n, top = len(rows), min(neighbours, len(rows) - 1)
    places, values = [], []
    for start in range(0, n, BLOCK):
        cosine = rows[start : start + BLOCK] @ rows.T
        own = torch.arange(start, start + len(cosine), device=rows.device)
        cosine[torch.arange(len(cosine), device=rows.device), own] = -torch.inf
        value, nearest = cosine.topk(top, dim=1)
        places.append(torch.stack([own.repeat_interleave(top), nearest.flatten()]))
        values.append(value.flatten().clamp(min=0))
    index, value = torch.cat(places, dim=1), torch.cat(values)
    both = torch.cat([index, index.flip(0)], dim=1)
    W = sparse_coo(both, torch.cat([value, value]) / 2, (n, n)).coalesce()
    degree = torch.zeros(n).to(rows).index_add_(0, W.indices()[0], W.values()).clamp(min=1e-30).rsqrt()
    r, c = W.indices()
    scaled = W.values() * degree[r] * degree[c]
    return sparse_coo(W.indices(), scaled, (n, n), coalesced=True)
