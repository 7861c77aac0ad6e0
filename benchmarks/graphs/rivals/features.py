"""Node features for the first layer of a network, dense and sparse parts side by side.

A tuple of parts stands for their joined columns, for example sparse raw features beside a dense code. Nothing sparse is
made dense: the first layer adds up one product per part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eigenmap.networks import SparseRows

Part: TypeAlias = "Tensor | SparseRows"
Features: TypeAlias = "tuple[Part, ...]"


def rows(x: Features, nodes: Tensor) -> Features:
    """The features of some nodes."""
    return tuple(part[nodes] for part in x)


def widths(x: Features) -> list[int]:
    """Columns of each part."""
    return [part.shape[1] for part in x]


def hide(part: Part, probability: float) -> Part:
    """Dropout; of a sparse part only its entries can be dropped, and only they matter."""
    if isinstance(part, Tensor):
        return F.dropout(part, probability)
    return SparseRows(part.offsets, part.columns, F.dropout(entries(part), probability), part.width)


def mask_columns(part: Part, probability: float) -> Part:
    """Whole columns set to zero, the same for all nodes."""
    kept = (torch.rand(part.shape[1], device=part.device) >= probability).float()
    if isinstance(part, Tensor):
        return part * kept
    return SparseRows(part.offsets, part.columns, entries(part) * kept[part.columns.long()], part.width)


def entries(part: SparseRows) -> Tensor:
    """The values of a sparse part, which may be ones that are not stored."""
    if part.values is None:
        return torch.ones(len(part.columns), device=part.columns.device)
    return part.values.float()


class FirstLayer(nn.Module):
    """A linear layer over parts side by side, initialised like `nn.Linear` of the joined width, with input dropout."""

    def __init__(self, in_features: Sequence[int], out_features: int, dropout: float = 0.0) -> None:
        super().__init__()
        bound = 1 / math.sqrt(sum(in_features))
        self.weights = nn.ParameterList(
            torch.empty(width, out_features).uniform_(-bound, bound) for width in in_features
        )
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.dropout = dropout

    def forward(self, x: Features) -> Tensor:
        """(n, out_features)."""
        if self.training and self.dropout:
            x = tuple(hide(part, self.dropout) for part in x)
        return self.bias + sum(product(part, weight) for part, weight in zip(x, self.weights, strict=True))


def product(part: Part, weight: Tensor) -> Tensor:
    """Rows times a matrix; sparse ones as a sum of the rows of the matrix."""
    if isinstance(part, Tensor):
        return part @ weight
    return F.embedding_bag(
        part.columns.long(),
        weight,
        part.offsets,
        per_sample_weights=entries(part),
        mode="sum",
        include_last_offset=True,
    )


def standardised(codes: Tensor, over: Tensor | None = None) -> Tensor:
    """Columns of mean 0 and deviation 1, as measured over some of the nodes."""
    like = codes if over is None else codes[over]
    return (codes - like.mean(0)) / like.std(0).clamp(min=1e-6)
