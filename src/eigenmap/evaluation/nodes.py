"""Node classification from frozen codes.

Nodes are split into training, validation and test nodes. A probe is fitted to the codes of the training nodes with a
share of their labels (1, 10 or 100 %), its settings are chosen on the validation nodes, and the test nodes are
classified once. There are four probes, of which the first three are linear:

| name       | method | chosen on validation nodes |
| ---------- | --- | --- |
| `ridge`    | closed form: least squares on one-hot labels | the penalty |
| `logistic` | BGRL's [1]: rows of norm 1, one logistic regression per class | C = 2^-10 ... 2^10 |
| `paper`    | Neural Eigenmap's [2]: softmax regression by SGD with label smoothing | the epoch |
| `few`      | also uses codes without labels (`few_labels`) | logistic, prototypes or label spreading |

    split = random_split(labels, seed=0)                        # 10 % / 10 % / 80 % of the labelled nodes
    rows = evaluate_nodes(codes, labels, [split], shares=(0.01, 0.1, 1.0), dims=[8, 64, 256])

[1] Thakoor et al., Large-Scale Representation Learning on Graphs via Bootstrapping, ICLR 2022.
[2] Deng, Shi, Zhang, Cui, Lu, Zhu, Neural Eigenfunctions Are Structured Representation Learners, ICLR 2024.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from statistics import mean, stdev
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor
from torch.nn import functional as F

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.core.tensors import as_tensor
from eigenmap.evaluation.few_labels import Classifier, Labelled, drawn, fit_probe_few
from eigenmap.evaluation.node_codes import StreamedCodes, require_finite
from eigenmap.evaluation.probe import LAMBDAS, LinearProbe, fit_ridge, fractions, softmax_epochs, standardisation
from eigenmap.evaluation.ranking import CodesLike, codes_as_tensor, device_of

STRENGTHS = tuple(2.0**power for power in range(-10, 11))
"""BGRL's candidates for C of the logistic probe."""

BLOCK = 16_384
"""Number of test nodes whose codes are in memory at a time."""

DIMS = (8, 16, 32, 64, 128, 256, 512, 1024)
"""Default code lengths; the full length is always measured too."""


class NodeSplit(NamedTuple):
    """Node numbers for training, for choosing settings, and for the final score."""

    train: Tensor
    validation: Tensor
    test: Tensor


class UnitRowProbe(LinearProbe):
    """A linear classifier of rows scaled to norm 1."""

    def predict(self, features: CodesLike, block: int = 16_384) -> Tensor:
        """Return the class number of each row, which may have any norm."""
        x = codes_as_tensor(features, self.weight.device, self.weight.dtype)
        return super().predict(F.normalize(x, dim=1), block)


class NodeRow(TypedDict):
    """Accuracy of a probe over several runs, at one code length and with one share of the labels."""

    probe: str
    dim: int
    share: float
    labels: int
    runs: int
    validation: float
    accuracy: float
    spread: float


def random_split(labels: CodesLike, seed: int, train: float = 0.1, validation: float = 0.1) -> NodeSplit:
    """Split the labelled nodes (class number 0 or above) at random; all remaining nodes are for testing.

    >>> [len(part) for part in random_split(torch.arange(200) % 2, seed=0)]
    [20, 20, 160]
    """
    for name, share in (("train", train), ("validation", validation)):
        if not 0 < share < 1 or train + validation >= 1:
            raise EigenmapError(f"{name} must be a share above 0, and both together below 1, not {share!r}")
    nodes = torch.nonzero(as_tensor(labels, "labels").cpu() >= 0).flatten()
    if len(nodes) < 3:
        raise EigenmapError(f"a split needs at least 3 labelled nodes, not {len(nodes)}")
    nodes = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(seed))]
    first, second = max(1, round(train * len(nodes))), max(1, round(validation * len(nodes)))
    parts = torch.split(nodes, [first, second, len(nodes) - first - second])
    return NodeSplit(*(part.sort().values for part in parts))


def few_labels(labels: CodesLike, train: Tensor, share: float, seed: int = 0) -> Tensor:
    """Return the training nodes whose labels are used: a stratified share, at least one of each class."""
    return train[fractions(as_tensor(labels, "labels").cpu()[train.cpu()], (share,), seed)[share]]


def fit_probe_ridge(train: Labelled, validation: Labelled) -> LinearProbe:
    """Fit a ridge probe in closed form; among the penalties that are best on the validation nodes, use the largest."""
    probes = [fit_ridge(train.x, train.y, lambdas=[strength], held_out=0.5) for strength in LAMBDAS]
    return max(reversed(probes), key=lambda probe: probe.accuracy(*validation))


@torch.no_grad()
def fit_probe_logistic(
    train: Labelled, validation: Labelled, strengths: Sequence[float] = STRENGTHS, iterations: int = 300
) -> UnitRowProbe:
    r"""Fit one logistic regression per class to rows of norm 1, with the smallest C that is best on validation nodes.

        minimise  |w|^2 / 2 + C sum_i log(1 + exp(-s_i (w . x_i + b))),   s_i = 1 in the class, -1 elsewhere

    The bias is not penalised. All classes and all C are solved together (`_one_against_rest`). A class without a
    training node is never predicted.
    """
    x = F.normalize(train.x.double(), dim=1)
    n_classes = int(train.y.max()) + 1
    sign = 2.0 * F.one_hot(train.y, n_classes).to(x) - 1
    weight, bias = _one_against_rest(x, sign, sorted(strengths), iterations)
    bias = bias.masked_fill(~(sign > 0).any(0), -torch.inf)
    others = F.normalize(validation.x.double(), dim=1)
    hits = [(F.linear(others, w, b).argmax(1) == validation.y).sum() for w, b in zip(weight, bias, strict=True)]
    best = int(torch.stack(hits).cpu().numpy().argmax())  # the first of the best
    return UnitRowProbe(weight[best].to(train.x.dtype), bias[best].to(train.x.dtype))


def _one_against_rest(x: Tensor, sign: Tensor, strengths: Sequence[float], iterations: int) -> tuple[Tensor, Tensor]:
    r"""Return weights (strengths, classes, d) and biases of all problems, solved together in float64.

    The curvature of the logistic loss is at most 1/4, so M = C X^T X / 4 + I bounds the Hessian of every problem and
    the step w - M^-1 g never increases the loss [1]. In the eigenbasis of X^T X every M is diagonal. Nesterov's
    momentum speeds this up, and is reset where it points uphill [2]. The device never waits for the host.

    [1] Böhning, Lindsay, Monotonicity of quadratic-approximation algorithms, 1988.
    [2] O'Donoghue, Candès, Adaptive restart for accelerated gradient schemes, 2015.
    """
    if x.shape[1] > len(x):
        # Weights are combinations of the rows: solve in an orthonormal basis of these, which is smaller.
        basis = torch.linalg.qr(x.mT).Q
        weights, bias = _one_against_rest(x @ basis, sign, strengths, iterations)
        return weights @ basis.mT, bias
    X = torch.cat([x, torch.ones_like(x[:, :1])], dim=1)
    curvature, V = torch.linalg.eigh(X.T @ X)
    X, constant = X @ V, V[-1]
    C = torch.tensor(strengths).to(X)[:, None, None]
    step = 1 / (C * curvature.clamp(min=0) / 4 + 1)
    W = ahead = X.new_zeros(len(strengths), sign.shape[1], X.shape[1])
    t = X.new_ones(*W.shape[:2], 1)
    for _ in range(iterations):
        slope = -sign * torch.sigmoid(-sign * (X @ ahead.mT))
        gradient = C * (slope.mT @ X) + ahead - (ahead @ constant)[..., None] * constant
        new = ahead - step * gradient
        uphill = (gradient * (new - W)).sum(-1, keepdim=True) > 0
        following = torch.where(uphill, 1.0, (1 + (1 + 4 * t.square()).sqrt()) / 2)
        ahead = new + torch.where(uphill, 0.0, (t - 1) / following) * (new - W)
        W, t = new, following
    W = W @ V.T
    return W[..., :-1], W[..., -1]


@torch.no_grad()
def fit_probe_paper(
    train: Labelled,
    validation: Labelled,
    *,
    epochs: int = 100,
    warmup: int = 10,
    batch_size: int = 256,
    learning_rate: float = 0.01,
    momentum: float = 0.9,
    weight_decay: float = 1e-3,
    smoothing: float = 0.1,
    seed: int = 0,
) -> LinearProbe:
    """Fit softmax regression with smoothed labels by SGD, and return the epoch that is best on the validation nodes.

    The rate rises linearly and then follows a cosine. Features are standardised by the mean and spread of the training
    nodes; the returned probe takes raw features.
    """
    epochs, batch_size = whole_number(epochs, "epochs"), whole_number(batch_size, "batch_size")
    x, y = train
    centre, scale = standardisation(x)
    x = (x - centre) * scale
    n_classes = int(y.max()) + 1
    rates = [learning_rate * _warm_cosine(epoch, epochs, warmup) for epoch in range(epochs)]
    fitted = softmax_epochs(x, y, n_classes, rates, batch_size, momentum, weight_decay, seed, smoothing)
    raw = (LinearProbe(w := probe.weight * scale, probe.bias - w @ centre) for probe in fitted)
    return max(raw, key=lambda probe: probe.accuracy(*validation))


def _warm_cosine(epoch: int, epochs: int, warmup: int) -> float:
    """Return the share of the full rate: linear from 1 / warmup to 1, then half a cosine to 0."""
    if epoch < warmup:
        return (epoch + 1) / warmup
    return (1 + math.cos(math.pi * (epoch - warmup) / max(1, epochs - warmup))) / 2


FitProbe = Callable[[Labelled, Labelled], LinearProbe]

PROBES: Mapping[str, FitProbe] = {"ridge": fit_probe_ridge, "logistic": fit_probe_logistic, "paper": fit_probe_paper}
"""Probes by name."""
FEW = "few"
"""Name of the probe that also uses codes without labels (`evaluation.few_labels`)."""


def evaluate_nodes(
    codes: CodesLike | StreamedCodes,
    labels: CodesLike,
    splits: Sequence[NodeSplit],
    *,
    shares: Sequence[float] = (0.01, 0.1, 1.0),
    dims: Sequence[int] | None = None,
    probe: str = "logistic",
    device: torch.device | str | None = None,
) -> list[NodeRow]:
    """Measure accuracy on the test nodes for every code length and share of the training labels.

    Codes are cut to their first `dim` features. Run r uses `splits[r]`, and its training labels are drawn with seed r.
    Results are means and sample standard deviations over the runs. With all labels, repeated copies of one split count
    as one run.

    Args:
        codes: (n, k), one row per node; `StreamedCodes` if they do not fit into memory.
        labels: (n,) class numbers, gaps allowed; numbers below 0 are unknown, and no split may contain such a node.
        splits: one per run, from `random_split` or given with the data.
        shares: shares of the training labels, in (0, 1].
        dims: code lengths; default those of `DIMS` below the full length, and the full length.
        probe: one of `PROBES`, or "few", which uses the codes of all nodes.
        device: device to compute on; default that of the codes.

    Returns:
        One row per share and length, ordered by share.

    """
    if probe not in (*PROBES, FEW):
        raise EigenmapError(f"probe must be one of {', '.join((*PROBES, FEW))}, not {probe!r}")
    x, y = _checked(codes, labels, splits, device)
    width = x.shape[1]
    lengths = [whole_number(dim, "dim", 1, width) for dim in dims] if dims else default_dims(width)
    rows: list[NodeRow] = []
    for share in shares:
        same = share == 1.0 and all(split is splits[0] for split in splits)
        distinct = splits[:1] if same else splits
        trains = [few_labels(y, split.train, share, seed=run) for run, split in enumerate(distinct)]
        runs = [
            _fitted(x, y, train, split.validation, lengths, probe)
            for split, train in zip(distinct, trains, strict=True)
        ]
        tested = _tested(x, y, distinct, lengths, [[fitted.probe for fitted in run] for run in runs])
        for place, dim in enumerate(lengths):
            accuracies = [scores[place] for scores in tested]
            rows.append(
                NodeRow(
                    probe=probe,
                    dim=dim,
                    share=share,
                    labels=len(trains[0]),
                    runs=len(distinct),
                    validation=mean(run[place].validation for run in runs),
                    accuracy=mean(accuracies),
                    spread=stdev(accuracies) if len(accuracies) > 1 else 0.0,
                )
            )
    return rows


def default_dims(n_components: int) -> list[int]:
    """Return the default code lengths: those of `DIMS` below the full length, and the full length.

    >>> default_dims(20)
    [8, 16, 20]
    """
    return [dim for dim in DIMS if dim < n_components] + [n_components]


class Fitted(NamedTuple):
    """A probe, and its accuracy on the validation nodes."""

    probe: Classifier
    validation: float


def _fitted(
    x: Tensor | StreamedCodes, y: Tensor, train: Tensor, validation: Tensor, lengths: Sequence[int], probe: str
) -> list[Fitted]:
    """Fit one run's probe at every length."""
    known, judged = x[train], x[validation]
    pool = x[drawn(len(x)).to(x.device)] if probe == FEW else None
    found = []
    for dim in lengths:
        labelled, others = (
            Labelled(part[:, :dim].contiguous(), y[nodes]) for part, nodes in ((known, train), (judged, validation))
        )
        fitted: Classifier
        if pool is None:
            fitted = PROBES[probe](labelled, others)
        else:
            fitted = fit_probe_few(labelled, others, pool[:, :dim], fit_probe_logistic(labelled, others))
        found.append(Fitted(fitted, fitted.accuracy(*others)))
    return found


def _tested(
    x: Tensor | StreamedCodes,
    y: Tensor,
    splits: Sequence[NodeSplit],
    lengths: Sequence[int],
    probes: Sequence[Sequence[Classifier]],
) -> list[list[float]]:
    """Return the test accuracy of each run's probes; codes are computed in blocks, once for equal splits."""
    hits = [[0] * len(each) for each in probes]
    for split in {id(split): split for split in splits}.values():
        runs = [run for run, other in enumerate(splits) if other is split]
        for nodes in torch.split(split.test, BLOCK):
            block, classes = x[nodes], y[nodes]
            for run in runs:
                for place, (dim, probe) in enumerate(zip(lengths, probes[run], strict=True)):
                    hits[run][place] += int((probe.predict(block[:, :dim]) == classes).sum())
    return [[hit / len(split.test) for hit in each] for each, split in zip(hits, splits, strict=True)]


def _checked(
    codes: CodesLike | StreamedCodes, labels: CodesLike, splits: Sequence[NodeSplit], device: torch.device | str | None
) -> tuple[Tensor | StreamedCodes, Tensor]:
    x: Tensor | StreamedCodes
    if isinstance(codes, StreamedCodes):
        x, place = codes, codes.device if device is None else torch.device(device)
    else:
        place = torch.device(device) if device is not None else device_of(codes)
        if codes.ndim != 2 or len(codes) == 0:
            raise EigenmapError("codes must be a matrix with one row per node")
        x = require_finite(codes_as_tensor(codes, place, torch.float32))
    y = as_tensor(labels, "labels")
    if y.shape != (len(x),) or y.is_floating_point():
        raise EigenmapError(
            f"labels must be whole class numbers, one for each of the {len(x)} nodes, not of shape {tuple(y.shape)}"
        )
    y = _numbered(y.to(place, torch.int64))
    if int(y.max()) < 1:
        raise EigenmapError("labels must contain at least two classes")
    if not splits:
        raise EigenmapError("evaluate_nodes needs at least one split; random_split makes them")
    for split in splits:
        for name, nodes in split._asdict().items():
            _check_part(name, nodes, y)
        _check_apart(split)
    return x, y


def _numbered(y: Tensor) -> Tensor:
    """Renumber the classes from 0 without gaps, keeping their order; -1 stays unknown."""
    known = torch.unique(y[y >= 0])
    return torch.where(y < 0, -1, torch.searchsorted(known, y))


def _check_part(name: str, nodes: Tensor, y: Tensor) -> None:
    if len(nodes) == 0:
        raise EigenmapError(f"the {name} part of a split is empty; every part needs a node")
    if int(nodes.min()) < 0 or int(nodes.max()) >= len(y):
        raise EigenmapError(f"the {name} part of a split contains nodes outside 0 ... {len(y) - 1}")
    repeated = len(nodes) - len(torch.unique(nodes))
    if repeated:
        raise EigenmapError(f"{repeated} nodes are listed more than once in the {name} part of a split; use each once")
    unknown = int((y[nodes] < 0).sum())
    if unknown:
        raise EigenmapError(
            f"the {name} part of a split contains {unknown} nodes without a label; leave them out of it"
        )


def _check_apart(split: NodeSplit) -> None:
    for (name, nodes), (other, others) in combinations(split._asdict().items(), 2):
        shared = int(torch.isin(nodes, others).sum())
        if shared:
            raise EigenmapError(f"{shared} nodes are in the {name} and in the {other} part of a split; use each once")
