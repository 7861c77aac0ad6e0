"""Inference with batch normalisation folded into the linear layers, for the residual MLP of graph models.

In evaluation mode BN(W x) = (W x - mean) g / sqrt(var + eps) + b is linear in x: scaling the rows of W and adding a
bias has the same effect and saves one pass over memory per layer. For sparse rows the first layer still sums the
weights of their columns. Only the requested output is computed.

    run = Folding().of(network.eval(), "encoder", Inference())          # inputs -> features
    model.inference = Inference(precision="bfloat16", compile=True)     # on a GPU
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eigenmap.core.errors import EigenmapError
from eigenmap.networks.network import Network
from eigenmap.networks.residual_mlp import ResidualBlock, ResidualMLP, standardised_rows
from eigenmap.networks.sparse import SparseRows

Output = Literal["encoder", "projector"]


@dataclass(frozen=True)
class Inference:
    """Inference settings of a graph model.

    Attributes:
        precision: precision of matrix products: "float32", or "bfloat16", which is several times as fast on a GPU.
        compile: whether torch compiles the layers; the first call takes seconds, and only dense rows become faster.

    """

    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False

    def __post_init__(self) -> None:
        if self.precision not in ("float32", "bfloat16"):
            raise EigenmapError(f'precision must be "float32" or "bfloat16", not {self.precision!r}.')


class FoldedMLP(nn.Module):
    """Layers of a `ResidualMLP`, and of the projector if requested, without batch normalisation."""

    def __init__(self, network: Network, output: Output, how: Inference) -> None:
        super().__init__()
        self.dtype = torch.bfloat16 if how.precision == "bfloat16" else torch.float32
        encoder = network.encoder
        assert isinstance(encoder, ResidualMLP)
        self.encoder = encoder
        scale, shift = _affine(encoder.norm)
        self.stem, self.bias = (encoder.stem.weight.detach() * scale).to(self.dtype), shift.to(self.dtype)
        self.blocks = [
            (self._folded(block.layers[0], block.layers[1]), self._folded(block.layers[3], block.layers[4]))
            for block in encoder.blocks
            if isinstance(block, ResidualBlock)
        ]
        self.last: list[tuple[Tensor, Tensor]] = []
        if output == "projector":
            first, norm, _, second = network.projector.layers
            assert isinstance(second, nn.Linear)
            self.last = [self._folded(first, norm), (second.weight.to(self.dtype), second.bias.to(self.dtype))]
        self.layers = torch.compile(self._layers, dynamic=True) if how.compile else self._layers

    def _folded(self, linear: nn.Module, norm: nn.Module) -> tuple[Tensor, Tensor]:
        weight, bias = _folded_linear(linear, norm)
        return weight.to(self.dtype), bias.to(self.dtype)

    def forward(self, x: Tensor | SparseRows) -> Tensor:
        """Map feature vectors (B, in_features) to features (B, width), or to psi."""
        rows = standardised_rows(self.encoder, x)
        if isinstance(rows, SparseRows):
            h = _sum_of_columns(rows, self.stem) + self.bias
        else:
            h = torch.addmm(self.bias, rows.to(self.dtype), self.stem)
        made: Tensor = self.layers(h).float()
        return made

    def _layers(self, h: Tensor) -> Tensor:
        h = h.relu()
        for (first, bias), (second, second_bias) in self.blocks:
            h = (h + F.linear(F.linear(h, first, bias).relu_(), second, second_bias)).relu_()
        if self.last:
            (first, bias), (second, second_bias) = self.last
            h = F.linear(F.linear(h, first, bias).relu_(), second, second_bias)
        return h


def _sum_of_columns(rows: SparseRows, weight: Tensor) -> Tensor:
    values = None if rows.values is None else rows.values.to(weight.dtype)
    return F.embedding_bag(
        rows.columns.long(), weight, rows.offsets, per_sample_weights=values, mode="sum", include_last_offset=True
    )


def _affine(norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Return scale and shift of a batch normalisation in evaluation mode, computed in float64."""
    assert isinstance(norm, nn.BatchNorm1d) and norm.running_mean is not None and norm.running_var is not None
    scale = norm.weight.detach().double() / (norm.running_var.double() + norm.eps).sqrt()
    shift = norm.bias.detach().double() - norm.running_mean.double() * scale
    return scale.to(norm.weight.dtype), shift.to(norm.weight.dtype)


def _folded_linear(linear: nn.Module, norm: nn.Module) -> tuple[Tensor, Tensor]:
    assert isinstance(linear, nn.Linear) and linear.bias is None
    scale, shift = _affine(norm)
    return linear.weight.detach() * scale[:, None], shift


def _version(tensor: Tensor) -> int:
    """Return a number that grows with every change; tensors made in inference mode have none and count as fixed."""
    return 0 if tensor.is_inference() else tensor._version


class Folding:
    """Cache of the folded layers of a network, rebuilt when its weights change or move."""

    def __init__(self) -> None:
        self._made: dict[Output, tuple[object, FoldedMLP]] = {}
        self._places: list[Mapping[str, object]] = []

    def of(self, network: Network, output: Output, how: Inference) -> FoldedMLP | None:
        """Return the layers for one output; None if the encoder is of another kind, or is in training mode."""
        if not isinstance(network.encoder, ResidualMLP) or network.training or type(network) is not Network:
            return None
        if output not in self._made or self._made[output][0] != (how, id(network), self._state()):
            # Looking the tensors up by `parameters()` in every call would take longer than encoding one node.
            self._places = [
                place
                for module in network.modules()
                for place in (module._parameters, module._buffers, module._modules)
            ]
            self._made[output] = ((how, id(network), self._state()), FoldedMLP(network, output, how))
        return self._made[output][1]

    def _state(self) -> tuple[object, ...]:
        """Return what changes when a weight is changed, moved or replaced, or a module is."""
        found = (value for place in self._places for value in place.values() if value is not None)
        return tuple(
            (id(value), _version(value), value.data_ptr()) if isinstance(value, Tensor) else id(value)
            for value in found
        )
