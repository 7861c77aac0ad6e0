r"""Staged alignment: one linear map of both outputs of a network, good on what training saw and on what it did not.

The projector keeps what two views agree on, and loses the rest; the encoder still has it. With e and p the centred
outputs of encoder and projector, C and A their moments as in `spectrum`:

    head    phi = LIFT * V_h^T p,   A_pp v = mu (C_pp + gamma_p I) v,   the h = HEAD largest mu
    tail    chi = (C_rr + gamma_e I)^-1/2 r,   r = e minus its regression on phi
    order   c = Q^T z,   z = [phi, chi],   Q from the singular value decomposition of E[z(x) e(x+)^T]

gamma is the mean variance of an output's features. The head is small and lifted, so that what was seen stays near; the
tail is the encoder with its strong directions evened out, which is what full-length codes of unseen things need. Q is
orthogonal: it leaves full-length codes as they are and moves to the front the directions that share most of the
encoder's variance with the other view. Its rows are the features; a code is one product. Where the projector is not
trained the encoder alone is staged: the head is empty.

HEAD, LIFT and the ridges were chosen on networks trained on CIFAR-10 and COCO, and confirmed on others
(`benchmarks/vision/transfer.py`). Criteria on held-out views were tried and would have chosen worse: how far views
agree about neighbours favours the projector, how well they find each other the encoder.

    alignment = staged_alignment(fit, held_out, (z_held, z_plus_held), width=512)    # z = [encoder, projector]
    codes = alignment.apply(z, dim=16)
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.spectrum import COLLAPSED, RECALL_LENGTHS, Alignment, Moments, align, captured, quotients, recall_curve

HEAD = 6
"""Most features that come from the projector."""
LIFT = 2.0
"""Factor of the head, where a feature of the tail has at most unit variance."""
RIDGE = 1.0
"""Of head and tail, in units of the mean variance of a feature."""
NO_VARIANCE = 1e-9
"""Share of the encoder's variance below which a direction of the tail is rounding."""


def staged_alignment(
    fit: Moments,
    held_out: Moments,
    held_out_pairs: tuple[Tensor, Tensor],
    *,
    width: int,
    n_components: int | None = None,
    head: int = HEAD,
    lift: float = LIFT,
) -> Alignment:
    """The staged code of the moments of z = [encoder, projector], whose first `width` features are the encoder's.

    The map comes from `fit`; eigenvalues, which here do not descend strictly, and the recall curve come from
    `held_out` and from `held_out_pairs`, both sides of some of its pairs. There are at most `width` + `head` features.
    """
    m = fit.mean()
    C, A = fit.about(m)
    if not bool(C.diagonal()[:width].any()):
        raise EigenmapError(COLLAPSED)
    first = lift * _head(fit, held_out, C, width, head)
    stages = torch.cat([first, _tail(C, first, width)], dim=1)
    rotation = _by_shared_variance(stages, A[:, :width])[:, :n_components]
    C_held, A_held = held_out.about(m)
    mu, power = quotients(*((rotation * (matrix @ rotation)).sum(0) for matrix in (A_held, C_held)))
    found = Alignment(m, rotation, mu, power, ridge=RIDGE, head=first.shape[1], noise=held_out.noise())
    codes = [found.apply(z.to(rotation), unit=False) for z in held_out_pairs]
    lengths = [d for d in RECALL_LENGTHS if d <= found.n_components]
    return replace(found, quality=captured(found, held_out), recall=recall_curve(codes, lengths)).to("cpu")


def _head(fit: Moments, held_out: Moments, C: Tensor, width: int, most: int) -> Tensor:
    """The leading Ritz features of the projector, as columns over both outputs; none if there is no projector."""
    columns = C.new_zeros(len(C), most)
    if width == len(C):
        return columns[:, :0]
    projector = slice(width, len(C))
    leading = align(fit.part(projector), held_out.part(projector), RIDGE).rotation[:, :most]
    columns[projector, : leading.shape[1]] = leading
    return columns[:, : leading.shape[1]]


def _tail(C: Tensor, head: Tensor, width: int) -> Tensor:
    """The encoder without its regression on the head, whitened up to the ridge, as columns over both outputs."""
    C_head, shared = head.T @ C @ head, head.T @ C[:, :width]
    # A pseudo-inverse: features of the head may repeat each other on few pairs.
    slopes = torch.linalg.pinv(C_head, hermitian=True) @ shared
    variance, basis = torch.linalg.eigh(C[:width, :width] - shared.T @ slopes)
    total = C[:width, :width].diagonal()
    keep = variance > NO_VARIANCE * total.sum()
    directions = basis[:, keep] * (variance[keep] + RIDGE * total.mean()).rsqrt()
    tail: Tensor = -head @ (slopes @ directions)
    tail[:width] += directions
    return tail


def _by_shared_variance(stages: Tensor, A: Tensor) -> Tensor:
    """Rotate the columns of `stages` so that those that share most with the encoder's other view come first."""
    order, _, _ = torch.linalg.svd(stages.T @ A, full_matrices=True)
    rotation: Tensor = stages @ order
    # Singular vectors have no sign; fix one so that equal runs give equal codes.
    return rotation * rotation.gather(0, rotation.abs().argmax(0, keepdim=True)).sign()
