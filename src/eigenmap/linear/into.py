r"""Map of new vectors into the space of stored codes, so that nothing has to be encoded again.

An old model encoded items as phi(y), and their codes w * phi(y) are stored. From pairs (x, y) of vectors of the same
items, x by a new model, find a linear map L such that L x replaces phi(y):

    (C + gamma I)^-1/2 A C_plus^-1/2 = U diag(rho) V^T,        L = C_plus^1/2 V diag(rho^s) U^T (C + gamma I)^-1/2

s = 1 is ridge regression of phi on x, s = 0 an orthogonal fit of the whitened spaces. s, gamma and the weights of the
new codes, w^e, are chosen on held-out pairs.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.linear.choice import PairAlignment, Scores
from eigenmap.linear.collect import Collected
from eigenmap.linear.finding import judged_lengths, table_lengths
from eigenmap.linear.solutions import judged_maps
from eigenmap.spectrum import Alignment

RIDGES = (0.001, 0.01, 0.1, 0.3, 1.0, 3.0)
"""Candidates for gamma, in units of the mean variance of a feature."""
SHRINKAGES = (0.0, 0.5, 1.0)
"""Candidates for s."""
WEIGHTS = (0.0, 1.0, 2.0)
"""Candidates for e."""


def align_into(found: Collected, stored: Alignment, unit: bool, pairs: int) -> PairAlignment:
    """Return the best map into the codes of `stored`; the right side of `found` are its unweighted features phi."""
    of = found.fit.sides()
    if not bool(of.C.any()):
        raise EigenmapError("All rows of the new vectors are the same, so there is nothing to learn.")
    weights = stored.weights().to(of.C)
    gallery = found.judge.gallery * weights.to(found.judge.gallery)
    lengths = judged_lengths(stored.n_components)
    best: tuple[float, Alignment] | None = None
    for ridge in RIDGES:
        whiten, (U, rho, V), colour = _solved(of.C, of.A, of.C_plus, ridge)
        for s, e in product(SHRINKAGES, WEIGHTS):
            rotation = whiten @ (U * rho.pow(s)) @ V.T @ colour * weights.pow(e)
            one = Alignment(of.mean, rotation, weights, weights, ridge=ridge)
            scores = _scores(one, found, gallery, lengths)
            quality = round(sum(scores.values()) / len(scores), 6)
            if best is None or quality > best[0]:
                best = quality, replace(one, quality=quality)
    assert best is not None
    # Correlations with the stored features, in the order of the stored codes.
    chosen = _judged(best[1], found)
    table = {"ours": _scores(chosen, found, gallery, table_lengths(stored.n_components))}
    return PairAlignment(chosen, chosen, "pairs", True, unit, table, pairs, len(found.judge.queries))


def _solved(C: Tensor, A: Tensor, C_plus: Tensor, ridge: float) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor], Tensor]:
    """Return the whitening of the left side, the singular value decomposition, and C_plus^1/2."""
    variance, basis = torch.linalg.eigh(C)
    whiten = basis * (variance.clamp(min=0) + ridge * C.diagonal().mean()).rsqrt()
    plus, other = torch.linalg.eigh(C_plus)
    keep = plus > plus[-1] * 1e-9
    plus, other = plus[keep], other[:, keep]
    U, rho, Vh = torch.linalg.svd(whiten.T @ A @ (other * plus.rsqrt()), full_matrices=False)
    return whiten, (U, rho, Vh.T), (other * plus.sqrt()).T


def _scores(one: Alignment, found: Collected, gallery: Tensor, lengths: list[int]) -> Scores:
    return found.judge.scores(one.apply(found.judge.queries, t=0.0, unit=False), gallery, lengths)


def _judged(one: Alignment, found: Collected) -> Alignment:
    """Return the map with the held-out correlation and variance of each feature, in its own order."""
    n = one.n_components
    told = judged_maps(found.fit.sides(), one.rotation, torch.eye(n).to(one.rotation), found.held_out)
    # `judged_maps` sorts; undo that by matching columns, whose signs may have changed.
    order = told.right.rotation.abs().argmax(0).argsort()
    return replace(one, eigenvalues=told.left.eigenvalues[order], power=told.left.power[order], noise=told.left.noise)
