"""Residual MLP of the paper's graph experiments, for dense or sparse feature vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eigenmap.core.devices import widest
from eigenmap.core.errors import EigenmapError
from eigenmap.networks.sparse import LONG, SparseRows


class ResidualMLP(nn.Module):
    """h = relu(BN(W x)), then `blocks` times h = relu(h + BN(W2 relu(BN(W1 h)))): 1 + 2 * blocks linear layers.

    This is the encoder of Neural Eigenmaps for graphs (Deng et al., ICLR 2024), which has 5 blocks of width 2048. For
    sparse rows the first layer sums the weights of their columns, without allocating a dense input.

    Args:
        in_features: length of x.
        width: units per layer.
        blocks: residual blocks of two layers each.
        feature_dropout: probability of hiding an input feature in training, independently per node and feature.

    Example:
        >>> ResidualMLP(100, width=64)(torch.rand(8, 100)).shape
        torch.Size([8, 64])

    """

    shift: Tensor
    scale: Tensor

    def __init__(self, in_features: int, width: int = 256, blocks: int = 5, feature_dropout: float = 0.0) -> None:
        super().__init__()
        for name, size in {"in_features": in_features, "width": width, "blocks": blocks}.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < (0 if name == "blocks" else 1):
                raise EigenmapError(f"{name} must be a positive whole number, not {size!r}.")
        if not 0 <= feature_dropout < 1:
            raise EigenmapError(f"feature_dropout must be in [0, 1), not {feature_dropout!r}.")
        self.in_features, self.out_features, self.feature_dropout = in_features, width, feature_dropout
        self.register_buffer("shift", torch.zeros(in_features))
        self.register_buffer("scale", torch.ones(in_features))
        self.standardised = False
        self.register_load_state_dict_post_hook(_notice)  # type: ignore[no-untyped-call]
        self.stem = InputLayer(in_features, width)
        self.norm = nn.BatchNorm1d(width)
        self.blocks = nn.ModuleList(ResidualBlock(width) for _ in range(blocks))

    def standardise(self, mean: Tensor, deviation: Tensor) -> None:
        """Standardise dense inputs as (x - mean) / deviation before the first layer; stored with the weights.

        A feature with deviation 0 is constant and is ignored.
        """
        self.shift.copy_(mean)
        self.scale.copy_(torch.where(deviation > 0, 1 / deviation.clamp(min=1e-30), 0.0))
        _notice(self)

    def forward(self, x: Tensor | SparseRows) -> Tensor:
        """Map feature vectors (B, in_features) to features (B, width)."""
        h = F.relu(self.norm(self.stem(self._hide(standardised_rows(self, x)))))
        for block in self.blocks:
            h = block(h)
        return h

    def _hide(self, x: Tensor | SparseRows) -> Tensor | SparseRows:
        """Drop inputs at random; in a sparse row, only its entries."""
        if not self.training or self.feature_dropout == 0:
            return x
        if isinstance(x, Tensor):
            return F.dropout(x, self.feature_dropout)
        values = torch.ones(len(x.columns), device=x.device) if x.values is None else x.values.to(self.scale.dtype)
        return SparseRows(x.offsets, x.columns, F.dropout(values, self.feature_dropout), x.width)


def _notice(network: ResidualMLP, _: object = None) -> None:
    """Remember whether x is standardised; checking in every pass would make the host wait for the device."""
    network.standardised = bool((network.shift != 0).any() or (network.scale != 1).any())


def standardised_rows(network: ResidualMLP, x: Tensor | SparseRows) -> Tensor | SparseRows:
    """Return the input of the first layer: rows standardised as in training."""
    if x.shape[1] != network.in_features:
        raise EigenmapError(f"The network takes {network.in_features} features per row, not {x.shape[1]}.")
    if isinstance(x, SparseRows) and network.standardised:
        x = x.dense()  # trained on dense rows, whose zeros are ordinary numbers
    if not isinstance(x, SparseRows):
        # In float64: float32 would lose the differences of dates in seconds or amounts in cents.
        wide = widest(x) if x.dtype in LONG else x.to(network.shift.dtype)
        x = ((wide - network.shift) * network.scale).to(network.shift.dtype)
    return x


class ResidualBlock(nn.Module):
    """h -> relu(h + BN(W2 relu(BN(W1 h)))); no biases, BN would cancel them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, width, bias=False),
            nn.BatchNorm1d(width),
            nn.ReLU(inplace=True),
            nn.Linear(width, width, bias=False),
            nn.BatchNorm1d(width),
        )

    def forward(self, h: Tensor) -> Tensor:
        """Return features of the same width."""
        return F.relu(h + self.layers(h))


class InputLayer(nn.Module):
    """x W for dense or sparse rows, initialised like `nn.Linear`: uniform in +- in_features^-1/2."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(in_features)
        self.weight = nn.Parameter(torch.empty(in_features, out_features).uniform_(-bound, bound))

    def forward(self, x: Tensor | SparseRows) -> Tensor:
        """Map rows (B, in_features) to (B, out_features)."""
        if isinstance(x, Tensor):
            return x @ self.weight
        values = None if x.values is None else x.values.to(self.weight.dtype)
        return F.embedding_bag(
            x.columns.long(), self.weight, x.offsets, per_sample_weights=values, mode="sum", include_last_offset=True
        )
