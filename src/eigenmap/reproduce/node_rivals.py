"""Rivals of table 6: an MLP on features, on features and Laplacian eigenmap or node2vec codes, and GCN.

The defaults are those of OGB's examples, which the paper uses: three layers, the whole graph at once, the epoch that is
best on the validation nodes; the paper's MLPs are wider. An MLP is a GCN whose nodes have no neighbours.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags
from scipy.sparse.linalg import eigsh
from torch import Tensor, nn
from torch.nn import functional

from eigenmap.data.graphs.adjacency import Adjacency
from eigenmap.evaluation.nodes import NodeSplit, few_labels
from eigenmap.reproduce.inference_cost import normalised

Propagate = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Classifier:
    """A network that classifies nodes, and its training by Adam; every `check_every` epochs it is validated."""

    width: int = 256
    layers: int = 3
    dropout: float = 0.5
    batch_norm: bool = False
    learning_rate: float = 0.01
    epochs: int = 300
    check_every: int = 1


@dataclass(frozen=True)
class Fitting:
    """The classifiers, and the codes that MLPs are given.

    Attributes:
        dims: number of Laplacian eigenvectors, and of node2vec's features.
        length: nodes per walk; `walks` of them begin at each node, and nodes up to `window` apart are a pair.
        learning_rate: rate of node2vec.

    """

    gcn: Classifier = Classifier()
    mlp: Classifier = Classifier(width=512, dropout=0.0, epochs=200)
    dims: int = 128
    length: int = 40
    walks: int = 10
    window: int = 20
    learning_rate: float = 0.01


class Symmetric(torch.autograd.Function):
    """S h for a symmetric sparse S, whose gradient is S g: torch has no gradient for all sparse layouts."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, operator: Tensor) -> Tensor:
        """Return S h."""
        ctx.save_for_backward(operator)
        return operator @ h

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        """Return S g; S itself is given."""
        (operator,) = ctx.saved_tensors
        return operator @ gradients[0], None


def graph_convolution(walk: Adjacency, device: torch.device) -> Propagate:
    """Return h -> S h with S = D^-1/2 (A + I) D^-1/2."""
    operator = normalised(walk.edges().to(device), walk.n_nodes).matrix()
    return lambda h: Symmetric.apply(h, operator)  # type: ignore[no-untyped-call]


class NodeClassifier(nn.Module):
    """h <- dropout(relu(BN(S h W))), the last layer plain; without `propagate`, S = I, and BN is optional."""

    def __init__(self, features: int, classes: int, how: Classifier) -> None:
        super().__init__()
        sizes = [features, *[how.width] * (how.layers - 1), classes]
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(nn.BatchNorm1d(size) if how.batch_norm else nn.Identity() for size in sizes[1:-1])
        self.dropout = how.dropout

    def forward(self, x: Tensor, propagate: Propagate | None) -> Tensor:
        """Return the class scores of all rows."""
        for place, linear in enumerate(self.linears):
            x = linear(x)
            x = x if propagate is None else propagate(x)
            if place < len(self.norms):
                x = functional.dropout(self.norms[place](x).relu(), self.dropout, self.training)
        return x


def classify(
    x: Tensor, y: Tensor, train: Tensor, split: NodeSplit, propagate: Propagate | None, how: Classifier, seed: int
) -> float:
    """Return the accuracy on the test nodes of the epoch that is best on the validation nodes."""
    torch.manual_seed(seed)
    network = NodeClassifier(x.shape[1], int(y.max()) + 1, how).to(x.device)
    optimizer = torch.optim.Adam(network.parameters(), how.learning_rate)
    train, validation, test = (nodes.to(x.device) for nodes in (train, split.validation, split.test))
    # BatchNorm needs two rows; without neighbours the other rows do not matter.
    seen = x[train] if propagate is None and len(train) > 1 else x
    best, weights = -1.0, network.state_dict()
    for epoch in range(how.epochs):
        network.train()
        scores = network(seen, propagate)
        loss = functional.cross_entropy(scores if len(seen) == len(train) else scores[train], y[train])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if (epoch + 1) % how.check_every == 0:
            score = _accuracy(network, x, y, validation, propagate)
            if score > best:
                best, weights = score, copy.deepcopy(network.state_dict())
    network.load_state_dict(weights)
    return _accuracy(network, x, y, test, propagate)


@torch.no_grad()
def _accuracy(network: NodeClassifier, x: Tensor, y: Tensor, nodes: Tensor, propagate: Propagate | None) -> float:
    network.eval()
    scores = network(x[nodes], None) if propagate is None else network(x, propagate)[nodes]
    return float((scores.argmax(1) == y[nodes]).double().mean())


def laplacian_codes(walk: Adjacency, dims: int, seed: int = 0) -> Tensor:
    """Return the leading eigenvectors of D^-1/2 A D^-1/2, one row per node, each column of mean square 1."""
    ends, n = walk.edges().cpu().numpy(), walk.n_nodes
    matrix = csr_matrix((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(n, n))
    degree = np.asarray(matrix.sum(1)).ravel()
    scale = diags(1 / np.sqrt(np.maximum(degree, 1)))
    begin = np.random.default_rng(seed).normal(size=n)
    values, vectors = eigsh(scale @ matrix @ scale, k=min(dims, n - 2), which="LA", v0=begin)
    order = np.argsort(-values)
    return torch.from_numpy(vectors[:, order] * np.sqrt(n)).float()


def node2vec_codes(walk: Adjacency, how: Fitting, device: torch.device, seed: int = 0, batch: int = 256) -> Tensor:
    """Return codes by skip-gram on random walks with one uniform negative per pair: node2vec with p = q = 1.

    Minimised is - log s(u_i . v_j) - log s(- u_i . v_n), s the logistic function, by sparse Adam.
    """
    torch.manual_seed(seed)
    n, walk = walk.n_nodes, walk.to(device)
    linked = torch.nonzero(walk.degrees() > 0).flatten()  # no walk begins or ends at another node
    centre, context = (nn.Embedding(n, how.dims, sparse=True).to(device) for _ in range(2))
    nn.init.uniform_(centre.weight, -0.5 / how.dims, 0.5 / how.dims)
    nn.init.zeros_(context.weight)
    optimizer = torch.optim.SparseAdam([centre.weight, context.weight], lr=how.learning_rate)
    for _ in range(how.walks):
        for starts in torch.split(linked[torch.randperm(len(linked)).to(device)], batch):
            first, second = _pairs(walk, starts, how)
            u = centre(first)
            other = torch.randint(n, (len(first),), device=device)
            near, far = ((u * context(nodes)).sum(1) for nodes in (second, other))
            loss = -(functional.logsigmoid(near) + functional.logsigmoid(-far)).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()  # type: ignore[no-untyped-call]
    return centre.weight.detach()


def _pairs(walk: Adjacency, starts: Tensor, how: Fitting) -> tuple[Tensor, Tensor]:
    """Walk from every node of `starts`, and return all pairs at most `window` apart."""
    path = [starts]
    while len(path) < how.length:
        path.append(walk.neighbour(path[-1], torch.rand(len(starts), device=starts.device, dtype=torch.float64)))
    nodes = torch.stack(path, dim=1)
    gaps = range(1, min(how.window, how.length - 1) + 1)
    first = torch.cat([nodes[:, :-gap].flatten() for gap in gaps])
    return first, torch.cat([nodes[:, gap:].flatten() for gap in gaps])


def rival_accuracies(
    x: Tensor,
    y: Tensor,
    splits: Sequence[NodeSplit],
    share: float,
    propagate: Propagate | None,
    how: Classifier,
    seed: int = 0,
) -> tuple[float, float]:
    """Return mean and sample standard deviation of the accuracy: another split, labels and first weights per run."""
    found = [
        classify(x, y, few_labels(y, split.train, share, seed=run), split, propagate, how, seed + run)
        for run, split in enumerate(splits)
    ]
    return mean(found), stdev(found) if len(found) > 1 else 0.0
