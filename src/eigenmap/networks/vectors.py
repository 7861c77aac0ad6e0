"""Networks for vectors: the identity for linear codes, and a residual head on top of it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError
from eigenmap.networks.network import Network
from eigenmap.spectrum import unit_rms_rows

_LEAST_DEVIATION = 0.1
"""Share of the mean deviation below which a feature counts as nearly constant."""


class Rows(nn.Module):
    """Encoder that returns the vectors themselves, scaled to one norm if `unit`."""

    def __init__(self, n_features: int, unit: bool) -> None:
        super().__init__()
        self.out_features, self.unit = n_features, unit

    def forward(self, x: Tensor) -> Tensor:
        """Return rows of norm sqrt(n_features) if `unit`, else unchanged."""
        return unit_rms_rows(x) if self.unit else x


class ResidualHead(nn.Module):
    r"""Linear map plus a correction: psi = u W (x - m) + v V relu(LN(U z)) with z = (x - m) / deviation.

    V starts at zero and `start_from` sets W, so training begins at a linear solution. The unit u of each feature, and
    the mean v of the units, keep weights at size one, so that one learning rate fits linear maps of any scale. Training
    drops the share `dropout.p` of the hidden units: with few pairs the correction would memorise them.

    Args:
        in_features: length of x.
        out_features: length of psi.
        width: units of the hidden layer, at least 1.

    """

    shift: Tensor
    scale: Tensor
    unit: Tensor

    def __init__(self, in_features: int, out_features: int, width: int) -> None:
        super().__init__()
        self.in_features, self.hidden_features = in_features, width
        self.linear = nn.Linear(in_features, out_features, bias=False)
        self.hidden = nn.Sequential(nn.Linear(in_features, width), nn.LayerNorm(width), nn.ReLU())
        self.dropout = nn.Dropout(0.0)
        self.correction = nn.Linear(width, out_features, bias=False)
        nn.init.zeros_(self.correction.weight)
        self.register_buffer("shift", torch.zeros(in_features))
        self.register_buffer("scale", torch.ones(in_features))
        self.register_buffer("unit", torch.ones(out_features))

    @torch.no_grad()
    def start_from(self, mean: Tensor, rotation: Tensor, deviation: Tensor) -> None:
        """Start at psi = (x - mean) rotation; the hidden layer sees (x - mean) / deviation."""
        size = rotation.square().mean(0).sqrt()
        self.unit.copy_(size.clamp(min=max(0.01 * float(size.max()), 1e-30)))
        self.linear.weight.copy_(rotation.T / self.unit[:, None])
        self.shift.copy_(mean)
        # A nearly constant feature would otherwise be scaled up to mere rounding noise.
        least = max(_LEAST_DEVIATION * float(deviation.mean()), 1e-30)
        self.scale.copy_(torch.where(deviation > 0, 1 / deviation.clamp(min=least), 0.0))

    @torch.no_grad()
    def vary_from(self, first: int) -> None:
        """Start the features from `first` onwards, which the linear map leaves at 0, as random functions."""
        nn.init.normal_(self.correction.weight[first:], std=self.hidden_features**-0.5)
        self.unit[first:] = self.unit[:first].mean()

    def forward(self, x: Tensor) -> Tensor:
        """Map features (B, in_features) to psi (B, out_features)."""
        x = (x - self.shift).to(self.shift.dtype)
        hidden = self.dropout(self.hidden(x * self.scale))
        psi: Tensor = self.unit * self.linear(x) + self.unit.mean() * self.correction(hidden)
        return psi


@dataclass(frozen=True)
class VectorEncoderSpec:
    """Specification of a network for vectors.

    Attributes:
        width: hidden units of its residual head, 0 for none.
        plain: whether codes are made from psi itself, for heads whose outputs are functions, or from its direction.

    """

    width: int = 0
    plain: bool = False

    def build(self, length: int, unit: bool, n_components: int) -> VectorNetwork:
        """Build an untrained network."""
        return VectorNetwork(length, n_components, unit, self.width)


class VectorNetwork(Network):
    """x -> (features, psi): the vectors themselves and the output of a residual head.

    Without a head (`width` 0) psi equals the features, and only the alignment changes them.
    """

    projector: Any

    def __init__(self, n_features: int, n_components: int, unit: bool = True, width: int = 0) -> None:
        nn.Module.__init__(self)
        if width == 0 and n_components != n_features:
            raise EigenmapError("A network without a head has as many components as features.")
        self.encoder = Rows(n_features, unit)
        self.projector = ResidualHead(n_features, n_components, width) if width else nn.Identity()
        self.n_components, self.out_features = n_components, n_features


class PairNetwork(nn.Module):
    """Row numbers (B,) -> (features, psi): the network of each side, applied to these rows.

    Numbers below `n_left` are rows of the left side, the others of the right side. In one space both sides have the
    same network. Training draws row numbers; the rows are gathered here, from memory or a file.

    Args:
        left: network of the left side.
        right: network of the right side; `left` itself in one space.
        gather: maps row numbers, all of one side, to rows on the device of the numbers.
        n_left: number of rows of the left side.

    """

    def __init__(
        self, left: VectorNetwork, right: VectorNetwork, gather: Callable[[Tensor], Tensor], n_left: int
    ) -> None:
        super().__init__()
        self.left = left
        self.other = nn.ModuleList([] if right is left else [right])
        self.gather, self.n_left = gather, n_left

    @property
    def right(self) -> VectorNetwork:
        """Network of the right side."""
        return self.other[0] if len(self.other) else self.left  # type: ignore[return-value]

    def forward(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return psi of these rows twice, since vectors of two spaces do not form one matrix of features."""
        found, places = [], []
        for side, network in ((numbers < self.n_left, self.left), (numbers >= self.n_left, self.right)):
            where = side.nonzero()[:, 0]
            if len(where):
                found.append(network.projector(network.encoder(self.gather(numbers[where]))))
                places.append(where)
        psi = torch.cat(found)[torch.cat(places).argsort()]
        return psi, psi

    def __deepcopy__(self, memo: dict[int, object]) -> PairNetwork:
        left = deepcopy(self.left, memo)
        right = deepcopy(self.right, memo) if len(self.other) else left
        return PairNetwork(left, right, self.gather, self.n_left)  # a copy reads the same rows
