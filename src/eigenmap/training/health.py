r"""Health checks: effective rank and spectrum on held-out pairs during training.

Effective rank (Roy & Vetterli, 2007) of the held-out codes (rows of unit norm, since codes are compared by cosine),
with p the eigenvalues of their centred covariance divided by their sum:

    rank = exp(-sum_j p_j log p_j)

It is k for k uncorrelated features of equal variance, 1 if all features are copies of one, and 0 if the output is
constant. The spectrum consists of Rayleigh quotients mu_j = E[v_j(x) v_j(x+)] / E[v_j^2] along the leading principal
directions v_j of the same codes. Directions are used because most objectives do not order their features. Principal
ones are chosen by variance, not by agreement, so the estimate is not biased upwards.
`spectrum` computes the actual eigenvalues after training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from eigenmap.core.batch import Batch
from eigenmap.core.errors import EigenmapError
from eigenmap.core.pairing import Pairing
from eigenmap.spectrum import unit_rms_rows
from eigenmap.training.config import TrainingConfig
from eigenmap.training.metrics import Record

HeldOutPairs = tuple[Tensor, Tensor] | Batch | Callable[[], Iterable[Batch]]
"""Held-out pairs: two tensors, one batch, or a function that returns batches (the same ones at every call)."""

PAIRS = 1024
"""Maximum number of pairs used, which limits a check to a symmetric eigenproblem of size 2,048."""
LEADING = 8
ROUNDS = 12
"""Orthogonal iterations; directions not separated by then have nearly equal variance, and either order is right."""
PATIENCE = 3


class CollapseError(EigenmapError):
    """Raised when the features of the network have become copies of each other."""


class DivergedError(EigenmapError):
    """Raised when the loss, the gradient or the codes are no longer finite."""


@dataclass(frozen=True)
class Health:
    """Result of a check: effective rank, number of features, and the leading part of the spectrum."""

    effective_rank: float
    n_components: int
    eigenvalues: list[float]


@torch.no_grad()
def measure(network: nn.Module, held_out: HeldOutPairs, rows: int = 256) -> Health:
    """Measure `network` in evaluation mode on held-out pairs, `rows` items at a time; its mode is restored."""
    batches = held_out() if callable(held_out) else [Batch(*held_out)]
    was_training = network.training
    network.eval()
    codes: list[Batch] = []
    for batch in batches:
        views = (batch.x, batch.x_plus)
        psi, psi_plus = (torch.cat([network(part)[1].double() for part in torch.split(view, rows)]) for view in views)
        codes.append(Batch(psi, psi_plus, batch.kernel))
        if sum(len(seen.x) for seen in codes) >= PAIRS:
            break
    network.train(was_training)
    if not codes:
        raise EigenmapError("there are no held-out pairs to check the network on; omit held_out or give some.")
    joined = torch.cat([psi for part in codes for psi in (part.x, part.x_plus)])
    if not bool(joined.isfinite().all()):
        raise DivergedError("the network's output on held-out pairs is not finite; try a smaller lr or clip_norm=1.")
    joined = unit_rms_rows(joined)
    axes = principal_axes(joined)
    along = [
        Batch(unit_rms_rows(psi) @ axes, unit_rms_rows(psi_plus) @ axes, kernel) for psi, psi_plus, kernel in codes
    ]
    quotients = rayleigh_quotients(along, mean=joined.mean(dim=0) @ axes)
    return Health(effective_rank(joined), joined.shape[1], quotients)


def effective_rank(codes: Tensor) -> float:
    """Return the exponential of the entropy of the covariance's normalised eigenvalues, from at most 2,048 rows.

    >>> round(effective_rank(torch.eye(4).repeat(100, 1)), 6)
    3.0
    """
    codes = codes[: 2 * PAIRS].double()
    second_moment = codes.square().sum()
    codes = codes - codes.mean(dim=0)
    # The Gram matrices of rows and columns have the same non-zero eigenvalues: take the smaller one.
    gram = codes @ codes.T if len(codes) < codes.shape[1] else codes.T @ codes
    total = gram.trace()
    if total <= 1e-12 * second_moment:  # float32 rounding of a constant would look like noise of full rank
        return 0.0
    p = torch.linalg.eigvalsh(gram / total).clamp(min=0)
    return float(torch.special.entr(p).sum().exp())


def principal_axes(codes: Tensor, count: int = LEADING) -> Tensor:
    """Return orthonormal directions (k, count) of largest variance, in descending order, by orthogonal iteration.

    This takes a few products with the codes; a full eigenproblem would cost more than a training step.
    """
    codes = codes - codes.mean(dim=0)
    axes = codes[:count].T
    for _ in range(ROUNDS):
        axes = torch.linalg.qr(codes.T @ (codes @ axes)).Q
    variances = (codes @ axes).square().sum(dim=0)
    return axes[:, variances.argsort(descending=True)]


def rayleigh_quotients(codes: Sequence[Batch], mean: Tensor) -> list[float]:
    """Return E[psi_j(x) psi_j(x+)] / E[psi_j^2] for every column, centred at `mean`; 0 for a constant one."""
    shared, variance, pairs, rows = torch.zeros_like(mean), torch.zeros_like(mean), 0, 0
    for psi, psi_plus, kernel in codes:
        psi, psi_plus = psi - mean, psi_plus - mean
        pairing = Pairing.of(None if kernel is None else kernel.double())
        products, squares = psi * pairing.partner(psi_plus), [psi.square(), psi_plus.square()]
        if pairing.weights is not None:
            weights = (pairing.weights / pairing.weights.mean())[:, None]
            products, squares = weights * products, [weights * each for each in squares]
        shared += products.sum(dim=0)
        variance += sum(each.sum(dim=0) for each in squares)
        pairs += len(psi)
        rows += len(psi) + len(psi_plus)
    quotients = torch.where(variance > 0, (shared / pairs) / (variance / rows), 0.0)
    values: list[float] = quotients.tolist()
    return values


def lowest_rank(n_components: int) -> float:
    """Return the effective rank below which a network counts as collapsed: 2 for all but few features.

    A share of the number of features would not work: ordered objectives put nearly all variance into the first
    features, and healthy networks of 2,048 features were observed with an effective rank below 20. A healthy network of
    few features can have a rank below 2 (with two features it always does), so up to 21 features the limit grows
    linearly from 1.

        >>> [lowest_rank(k) for k in (1, 2, 11, 128, 8192)]
        [1.0, 1.05, 1.5, 2.0, 2.0]
    """
    return min(2.0, 1 + (n_components - 1) / 20)


def require_finite(record: Record, config: TrainingConfig) -> None:
    """Stop a run whose loss or gradient is no longer finite."""
    if math.isfinite(record["loss"]) and math.isfinite(record["gradient_norm"]):
        return
    clip = f"clip_norm={config.clip_norm / 10:g}" if config.clip_norm else "clip_norm=1"
    raise DivergedError(
        f"training diverged before step {record['step']}: loss {record['loss']}, largest gradient norm "
        f"{record['gradient_norm']}. Try a smaller rate (lr={config.lr / 10:g}) or {clip}."
    )


def require_features(history: Sequence[Record], config: TrainingConfig) -> None:
    """Stop a run whose held-out effective rank stayed too low in the last checks after warm-up."""
    checks = [r for r in history if "effective_rank" in r and r["step"] > config.warmup_steps][-PATIENCE:]
    if len(checks) < PATIENCE:
        return
    limit = lowest_rank(checks[-1]["n_components"])
    if any(check["effective_rank"] >= limit for check in checks):
        return
    largest = max(record["gradient_norm"] for record in history)
    if not config.clip_norm:
        cause = f"unclipped gradients (norm up to {largest:.3g}) blew up the weights, and the features froze"
        remedy = "clip_norm=1"
    else:
        cause = "the rate is too high, or the objective's penalty too strong, for the features to spread"
        remedy = f"a longer warm-up (warmup={min(max(2 * config.warmup_steps / config.steps, 0.1), 0.5):.2g})"
    last = checks[-1]
    raise CollapseError(
        f"the network collapsed: at step {last['step']} the held-out effective rank is {last['effective_rank']:.2f} "
        f"of {last['n_components']} features, below {limit:.3g} for {PATIENCE} checks in a row. "
        f"Likely cause: {cause}. Try lr={config.lr / 3:.2g} or {remedy}."
    )
