"""Linear probes of frozen features.

`fit_sgd` is the recipe reported by most self-supervised work: softmax regression by SGD 0.1 with momentum 0.9, weight
decay 1e-6, batches of 256, 100 epochs and a cosine schedule; everything stays on one device, without a data loader.
`fit_ridge` is a fast substitute: with X and one-hot labels Y both centred,

    W = argmin |X W - Y|^2 / n + lambda s |W|^2
      = (X^T X / n + lambda s I)^-1 X^T Y / n,        s = tr(X^T X) / (n d)

in float64 from the normal equations. The mean variance s makes lambda independent of the features' scale; lambda is
chosen on a held-out part of the *training* data.

    few = fractions(train_labels, shares=(0.01, 0.1, 1.0), seed=0)[0.01]
    probe = fit_ridge(train_features[few], train_labels[few])
    probe.accuracy(test_features, test_labels)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.evaluation.checks import class_numbers
from eigenmap.evaluation.ranking import CodesLike, codes_as_tensor, device_of

LAMBDAS = tuple(10.0**power for power in range(-8, 3))


class LinearProbe(NamedTuple):
    """A linear classifier: the class with the largest entry of weight @ x + bias."""

    weight: Tensor
    """(n_classes, d)"""
    bias: Tensor
    """(n_classes,)"""

    @torch.no_grad()
    def predict(self, features: CodesLike, block: int = 16_384) -> Tensor:
        """Return the class number of each row, (n,) int64 on the probe's device."""
        if features.ndim != 2 or features.shape[1] != self.weight.shape[1]:
            raise EigenmapError(
                f"features of shape {tuple(features.shape)} do not fit a probe of {self.weight.shape[1]} features"
            )
        parts = [torch.empty(0, dtype=torch.int64, device=self.weight.device)]
        for start in range(0, len(features), block):
            x = codes_as_tensor(features[start : start + block], self.weight.device, self.weight.dtype)
            parts.append(F.linear(x, self.weight, self.bias).argmax(1))
        return torch.cat(parts)

    def accuracy(self, features: CodesLike, labels: CodesLike) -> float:
        """Return the share of rows classified correctly."""
        truth = class_numbers(labels, len(features), "labels")
        return float((self.predict(features).cpu() == truth).double().mean())


@torch.no_grad()
def fit_sgd(
    features: CodesLike,
    labels: CodesLike,
    *,
    epochs: int = 100,
    batch_size: int = 256,
    learning_rate: float = 0.1,
    momentum: float = 0.9,
    weight_decay: float = 1e-6,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> LinearProbe:
    """Fit softmax regression by SGD on the given features; the last, smaller batch of an epoch is used too.

    The learning rate follows a cosine to 0, updated once per epoch. It suits features of about unit scale; standardise
    others first. Weights start at zero (the problem is convex), and `seed` only orders the batches.
    """
    place = torch.device(device) if device is not None else device_of(features)
    x, y, n_classes = _training_data(features, labels, place, torch.float32)
    epochs, batch_size = whole_number(epochs, "epochs"), whole_number(batch_size, "batch_size")
    rates = [learning_rate * (1 + math.cos(math.pi * epoch / epochs)) / 2 for epoch in range(epochs)]
    *_, probe = softmax_epochs(x, y, n_classes, rates, batch_size, momentum, weight_decay, seed)
    return probe


@torch.no_grad()
def softmax_epochs(
    x: Tensor,
    y: Tensor,
    n_classes: int,
    rates: Sequence[float],
    batch_size: int,
    momentum: float,
    weight_decay: float,
    seed: int,
    smoothing: float = 0.0,
) -> Iterator[LinearProbe]:
    """Train softmax regression by SGD and yield the probe after each epoch, whose learning rate is that of `rates`.

    All probes share their tensors: the next epoch changes them. `smoothing` is that of the labels.
    """
    weight, bias = x.new_zeros(n_classes, x.shape[1]), x.new_zeros(n_classes)
    weight_velocity, bias_velocity = torch.zeros_like(weight), torch.zeros_like(bias)
    # Batches are drawn on the CPU, so that they are the same on every device.
    generator = torch.Generator().manual_seed(seed)
    for rate in rates:
        for batch in torch.split(torch.randperm(len(x), generator=generator).to(x.device), batch_size):
            # The gradient of the mean cross-entropy with respect to the logits is (softmax - target) / b.
            rows, target = x[batch], F.one_hot(y[batch], n_classes).to(x) * (1 - smoothing) + smoothing / n_classes
            error = (F.linear(rows, weight, bias).softmax(1) - target) / len(batch)
            weight_velocity.mul_(momentum).add_(error.T @ rows).add_(weight, alpha=weight_decay)
            bias_velocity.mul_(momentum).add_(error.sum(0)).add_(bias, alpha=weight_decay)
            weight.sub_(weight_velocity, alpha=rate)
            bias.sub_(bias_velocity, alpha=rate)
        yield LinearProbe(weight, bias)


@torch.no_grad()
def fit_ridge(
    features: CodesLike,
    labels: CodesLike,
    *,
    lambdas: Sequence[float] = LAMBDAS,
    held_out: float = 0.2,
    seed: int = 0,
    device: torch.device | str | None = None,
    block: int = 8192,
) -> LinearProbe:
    """Fit ridge regression on one-hot labels in float64; the bias is not penalised.

    Each of `lambdas` is tried on a stratified share `held_out` of the data, the largest of the best is kept, and the
    probe is fitted again on all data. If no class has two items, nothing can be held out, and the middle one of
    `lambdas` is used.
    """
    place = torch.device(device) if device is not None else device_of(features)
    x, y, n_classes = _training_data(features, labels, place, None)
    grid = sorted(lambdas)
    if not grid or grid[0] <= 0 or not math.isfinite(grid[-1]):
        raise EigenmapError(f"lambdas must be numbers above 0, not {tuple(lambdas)!r}")
    if not 0 < held_out < 1:
        raise EigenmapError(f"held_out must be a share between 0 and 1, not {held_out!r}")

    # A common shift keeps the sums of squares small; it is undone in the bias.
    shift = torch.stack([part.double().sum(0) for part in torch.split(x, block)]).sum(0) / len(x)
    kept, tried = _split(y.cpu(), held_out, seed)
    moments = _moments(x[kept.to(place)], y[kept.to(place)], shift, n_classes, block)
    choice = grid[len(grid) // 2]
    if len(tried):
        tried = tried.to(place)
        if len(grid) > 1:
            truth = y[tried].cpu()
            scores = [probe.accuracy(x[tried], truth) for probe in _solve(moments, shift, grid)]
            choice = max(zip(scores, grid, strict=True))[1]
        moments = moments.merge(_moments(x[tried], y[tried], shift, n_classes, block))
    return _solve(moments, shift, [choice])[0]


def standardisation(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean of each feature and the factor that gives it variance 1, or 0 if it is constant.

    A feature counts as constant beside its own mean only: the last features of a code may be many times smaller than
    the first.
    """
    mean, deviation = features.mean(0), features.std(0, correction=0)
    varies = deviation > (1e-6 * mean.abs()).clamp(min=torch.finfo(features.dtype).tiny)
    return mean, torch.where(varies, 1 / deviation, 0.0)


def fractions(labels: CodesLike, shares: Sequence[float] = (0.01, 0.1, 1.0), seed: int = 0) -> dict[float, Tensor]:
    """Return stratified subsets of the data for few-label evaluation: share -> indices in increasing order.

    The rounded share of each class is taken, at least one item; smaller subsets are contained in larger ones.

    >>> {share: len(few) for share, few in fractions(torch.arange(200) % 2).items()}
    {0.01: 2, 0.1: 20, 1.0: 200}
    """
    numbers = class_numbers(labels, len(labels), "labels")
    for share in shares:
        if not 0 < share <= 1:
            raise EigenmapError(f"a label fraction must be above 0 and at most 1, not {share!r}")
    by_class = _shuffled_classes(numbers, seed)
    return {
        share: torch.cat([members[: max(1, round(share * len(members)))] for members in by_class]).sort().values
        for share in shares
    }


class _Moments(NamedTuple):
    """Sums over rows x and one-hot labels y that ridge regression needs."""

    n: int
    x: Tensor
    y: Tensor
    xx: Tensor
    xy: Tensor

    def merge(self, other: _Moments) -> _Moments:
        return _Moments(self.n + other.n, self.x + other.x, self.y + other.y, self.xx + other.xx, self.xy + other.xy)


def _moments(x: Tensor, y: Tensor, shift: Tensor, n_classes: int, block: int) -> _Moments:
    def empty(*shape: int) -> Tensor:
        return torch.zeros(*shape, dtype=torch.float64, device=x.device)

    d = x.shape[1]
    total = _Moments(0, empty(d), empty(n_classes), empty(d, d), empty(d, n_classes))
    for rows, classes in zip(torch.split(x, block), torch.split(y, block), strict=True):
        a, b = rows.double() - shift, F.one_hot(classes, n_classes).double()
        total = total.merge(_Moments(len(a), a.sum(0), b.sum(0), a.T @ a, a.T @ b))
    return total


def _solve(moments: _Moments, shift: Tensor, lambdas: Sequence[float]) -> list[LinearProbe]:
    """Solve the ridge problem for each lambda from one eigendecomposition."""
    n, x, y, xx, xy = moments
    covariance = xx / n - torch.outer(x, x) / n**2
    values, vectors = torch.linalg.eigh(covariance)
    target = vectors.T @ (xy / n - torch.outer(x, y) / n**2)
    # Constant features (all variances 0) give s = 0; any positive number then gives W = 0.
    s = max(float(values.mean()), torch.finfo(torch.float64).tiny)
    probes = []
    for strength in lambdas:
        weight = vectors @ (target / (values.clamp(min=0) + strength * s)[:, None])
        probes.append(LinearProbe(weight.T.contiguous(), y / n - (x / n + shift) @ weight))
    return probes


def _training_data(
    features: CodesLike, labels: CodesLike, device: torch.device, dtype: torch.dtype | None
) -> tuple[Tensor, Tensor, int]:
    if features.ndim != 2 or len(features) == 0:
        raise EigenmapError("features must be a matrix with at least one row")
    y = class_numbers(labels, len(features), "labels").to(device)
    x = codes_as_tensor(features, device, dtype)
    if not bool(torch.isfinite(x).all()):
        raise EigenmapError("features contain NaN or infinite values; every feature must be a finite number")
    return x, y, int(y.max()) + 1


def _split(y: Tensor, held_out: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return stratified (kept, held out) indices; a class of two or more items is on both sides."""
    kept, tried = [], []
    for members in _shuffled_classes(y, seed):
        n = min(max(1, round(held_out * len(members))), len(members) - 1)
        tried.append(members[:n])
        kept.append(members[n:])
    return torch.cat(kept), torch.cat(tried)


def _shuffled_classes(numbers: Tensor, seed: int) -> list[Tensor]:
    """Return the items of each existing class in seeded random order."""
    order = torch.randperm(len(numbers), generator=torch.Generator().manual_seed(seed))
    by_class = order[numbers[order].argsort(stable=True)]
    return list(torch.split(by_class, torch.unique(numbers, return_counts=True)[1].tolist()))
