r"""Staged alignment: one linear map of both outputs of a network, for data like or unlike the training set.

The projector keeps only what two views share; the encoder has the rest as well. Let e and p be the centred outputs of
encoder and projector, and C and A their moments as in `spectrum`:

    head    phi = LIFT * V_h^T p,   A_pp v = mu (C_pp + gamma_p I) v,   the HEAD largest v^T A_pp v / v^T C_pp v
    tail    chi = (C_rr + gamma_e I)^-1/2 r,   r = e minus its regression on phi
    order   c = Q^T z,   z = [phi, chi],   Q from the singular value decomposition of E[z(x) e(x+)^T]

gamma_p and gamma_e are the mean variances of a feature of p and of e. The features of the head are chosen on held-out
pairs; all else comes from the pairs of the fit. The head is small and scaled up, so that codes of data like the
training set stay good; the tail is the encoder with its strong directions evened out, which full-length codes of other
data need. Q is orthogonal: it does not change the geometry of full-length codes, and it puts first the directions that
share most of the encoder's variance with the other view. If the projector is not trained, the head is empty and the
encoder alone is staged.

HEAD, LIFT and the ridges were chosen with test labels, on networks of seeds 0 and 1 (`benchmarks/vision/transfer.py`).
Seeds 2 and 3 are clean confirmations. No criterion on held-out views replaces them: codes on which two views agree
about neighbours are best on what training saw, codes by which views find each other on the rest (docs/transfer.md).

    alignment = staged_alignment(fit, held_out, (z_held, z_plus_held), width=512)    # z = [encoder, projector]
    codes = alignment.apply(z, dim=16)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.spectrum.alignment import Alignment
from eigenmap.spectrum.moments import Moments
from eigenmap.spectrum.quality import PREFIXES, RECALL_LENGTHS, available, captured_by, recall_curve
from eigenmap.spectrum.ritz import COLLAPSED, Judge, align, signs

HEAD = 6
"""Maximum number of features of the head."""
LIFT = 2.0
"""Scale of the head; features of the tail have at most unit variance."""
RIDGE = 1.0
"""Ridge of head and tail, in units of the mean variance of a feature."""
NO_VARIANCE = 1e-9
"""Share of the encoder's variance below which a direction of the tail counts as rounding."""


def staged_alignment(
    fit: Moments,
    held_out: Moments,
    held_out_pairs: tuple[Tensor, Tensor],
    *,
    width: int,
    n_components: int | None = None,
    head: int = HEAD,
    lift: float = LIFT,
    order: Literal["encoder", "code"] = "encoder",
) -> Alignment:
    """Compute the staged alignment from moments of z = [encoder, projector]; the encoder has `width` features.

    The map comes from `fit`. The eigenvalues come from `held_out`, as does the choice of the Ritz features in the head;
    the recall curve comes from `held_out_pairs`, raw outputs of some of the held-out pairs. Eigenvalues need not
    descend. There are at most `width` + `head` features. `order` names whose variance the first features share with the
    other view: the encoder's, or the code's own.
    """
    m = fit.mean()
    C, A = fit.about(m)
    if not bool(C.diagonal()[:width].any()):
        raise EigenmapError(COLLAPSED)
    first = lift * _head(fit, held_out, C, width, head)
    stages = torch.cat([first, _tail(C, first, width)], dim=1)
    other = A[:, :width] if order == "encoder" else A @ stages
    rotation = _by_shared_variance(stages, other)[:, :n_components]
    judge = Judge.of(held_out, m)
    mu, power = judge.quotients(rotation)
    found = Alignment(m, rotation, mu, power, ridge=RIDGE, head=first.shape[1], noise=judge.noise)
    quality = captured_by(found, judge, PREFIXES)
    codes = [found.apply(z.to(rotation), unit=False) for z in held_out_pairs]
    recall = recall_curve(codes, available(found, RECALL_LENGTHS))
    return replace(found, quality=quality, recall=recall).to("cpu")


def _head(fit: Moments, held_out: Moments, C: Tensor, width: int, most: int) -> Tensor:
    """Return the Ritz features of the projector with the largest held-out eigenvalues, at most `most`.

    They are columns over both outputs; there are none without a projector.
    """
    columns = C.new_zeros(len(C), most)
    if width == len(C):
        return columns[:, :0]
    projector = slice(width, len(C))
    leading = align(fit.part(projector), held_out.part(projector), RIDGE).rotation[:, :most]
    columns[projector, : leading.shape[1]] = leading
    return columns[:, : leading.shape[1]]


def _tail(C: Tensor, head: Tensor, width: int) -> Tensor:
    """Return the encoder minus its regression on the head, whitened with the ridge, as columns over both outputs."""
    C_head, shared = head.T @ C @ head, head.T @ C[:, :width]
    # With few pairs, features of the head may be linearly dependent; hence the pseudo-inverse.
    slopes = torch.linalg.pinv(C_head, hermitian=True) @ shared
    variance, basis = torch.linalg.eigh(C[:width, :width] - shared.T @ slopes)
    total = C[:width, :width].diagonal()
    keep = variance > NO_VARIANCE * total.sum()
    directions = basis[:, keep] * (variance[keep] + RIDGE * total.mean()).rsqrt()
    tail: Tensor = -head @ (slopes @ directions)
    tail[:width] += directions
    return tail


def _by_shared_variance(stages: Tensor, A: Tensor) -> Tensor:
    """Rotate the columns of `stages` so that those sharing most with y(x+) come first; A is E[z(x) y(x+)^T]."""
    order, _, _ = torch.linalg.svd(stages.T @ A, full_matrices=True)
    rotation: Tensor = stages @ order
    return rotation * signs(rotation)
