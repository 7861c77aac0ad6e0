r"""Gradient clipping relative to the weights, unit by unit.

    g_i <- min(1, limit max(|w_i|, floor) / |g_i|) g_i        for every output unit (row) i of a weight matrix

A large batch with a large rate diverges in the layer whose gradient is largest relative to its weights; this limits the
step there and leaves the other layers alone. Biases and norm parameters are not clipped.

Brock, De, Smith, Simonyan: High-Performance Large-Scale Image Recognition Without Normalization, 2021.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

FLOOR = 1e-3
"""Smallest norm of a unit's weights that counts, so that a unit at zero can move."""


@torch.no_grad()
def clip_relative_(parameters: Iterable[Tensor], limit: float) -> None:
    """Scale down the gradients of every unit whose norm exceeds `limit` times that of its weights, in place."""
    for parameter in parameters:
        if parameter.grad is None or parameter.ndim < 2:
            continue
        w, g = (x.flatten(1).norm(dim=1) for x in (parameter, parameter.grad))
        share = (limit * w.clamp_min(FLOOR) / g.clamp_min(torch.finfo(g.dtype).tiny)).clamp_max(1.0)
        parameter.grad.mul_(share.view(-1, *[1] * (parameter.ndim - 1)))
