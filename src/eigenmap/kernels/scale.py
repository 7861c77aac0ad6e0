"""Length scale of a kernel, chosen from the data, and a warning for one that is far too small."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from eigenmap.kernels.relation import KernelRelation
from eigenmap.relations.kernel import evenly

SCALE = "scale"
SCALED = ("rbf", "matern", "laplacian")
"""Kernels that have a length scale."""
PROBED = 512
ALONE = 0.1
"""If the kernel's values at all other points sum to less than this share of its diagonal, points count as isolated."""


def with_length_scale(
    kernel: Any, kernel_params: Mapping[str, Any] | None, x: Tensor, weights: Tensor | None
) -> Mapping[str, Any] | None:
    """Return the parameters with length_scale="scale", the default of kernels that have one, replaced by a number."""
    params = dict(kernel_params or {})
    if not isinstance(kernel, str) or kernel not in SCALED or not _from_data(params.get("length_scale", SCALE)):
        return kernel_params
    return {**params, "length_scale": data_scale(kernel, x, weights)}


def _from_data(value: object) -> bool:
    return isinstance(value, str) and value == SCALE


def data_scale(kernel: str, x: Tensor, weights: Tensor | None = None) -> float:
    """Return sqrt(d v / 2) for d features of overall variance v, so that typical points are about one scale apart.

    For "rbf" this is scikit-learn's gamma="scale", 1 / (d v). The Laplacian kernel sums absolute differences, so its
    scale is d sqrt(v). Constant data get 1.

        >>> data_scale("rbf", torch.tensor([[0.0, 2.0], [2.0, 0.0]]))
        1.0
    """
    x = x.double()
    p = torch.ones(len(x)).to(x) if weights is None else weights.to(x)
    p = p / p.sum() / x.shape[1]
    mean = (p[:, None] * x).sum()
    variance = float((p[:, None] * (x - mean).square()).sum())
    if not variance > 0:
        return 1.0
    d = x.shape[1]
    return float(d * variance**0.5 if kernel == "laplacian" else (d * variance / 2) ** 0.5)


def warn_if_alone(relation: KernelRelation, length_scale: object, stacklevel: int = 3) -> None:
    """Warn if the kernel is nearly zero between different points, which makes its eigenfunctions meaningless."""
    n = len(relation)
    if relation.kernel is None or n < 3:
        return
    x = evenly(relation.x, PROBED).double()
    values = relation.kernel(x, x).detach().abs().double()
    diagonal = values.diagonal()
    others = (values.sum(1) - diagonal) * (n - 1) / (len(x) - 1)
    if not bool((diagonal > 0).all()) or float((others / diagonal).mean()) >= ALONE:
        return
    remedy = (
        "give it a longer range"
        if length_scale is None
        else f'length_scale = {length_scale} is too small for this data; leave it out, or use "{SCALE}"'
    )
    warnings.warn(f"The kernel is nearly zero between different points: {remedy}.", UserWarning, stacklevel=stacklevel)
