"""A network with a closed-form last layer: the functions an estimator has learned, ready to be evaluated."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError
from eigenmap.kernels.train import hidden_and_psi
from eigenmap.networks import MLP
from eigenmap.relations.operator import uniform

ROWS_AT_ONCE = 8192
"""Points that pass through the network at a time."""
LAYOUTS = ("auto", "shared", "separate")
SEPARATE_WIDTH = 32
"""Units in a hidden layer of each of several networks."""


class Standardise:
    """x -> (x - mean) / scale, one of each per coordinate; coordinates that do not vary keep their scale."""

    def __init__(self, x: Tensor, p: Tensor | None = None) -> None:
        x = x.double()
        p = uniform(len(x)).to(x) if p is None else (p / p.sum()).to(x)
        self.mean = p @ x
        deviation = (p @ (x - self.mean).square()).sqrt()
        constant = deviation <= 1e-12 * self.mean.abs()
        self.scale = torch.where(constant | (deviation == 0), 1.0, deviation)

    @classmethod
    def by(cls, mean: Tensor, scale: Tensor) -> Standardise:
        """With these numbers."""
        made = cls.__new__(cls)
        made.mean, made.scale = mean, scale
        return made

    def __call__(self, x: Tensor) -> Tensor:
        """Coordinates of about unit size, in the precision of x."""
        return ((x - self.mean.to(x.device)) / self.scale.to(x.device)).to(x.dtype)


class Functions:
    """span(x) = (hidden layer, 1), and the functions span(x) @ head.

    `span_psi` takes the network's own k outputs in the place of the hidden layer: where that is too wide, as with
    separate networks.
    """

    def __init__(self, network: nn.Module, standardise: Standardise, span_psi: bool) -> None:
        self.network, self.standardise, self.span_psi = network, standardise, span_psi
        self.head = torch.empty(0, 0)

    def span(self, x: Tensor) -> Tensor:
        """(B, m) the functions that are combined, in float64; the constant is the last of them."""
        with torch.no_grad():
            parts = [self._outputs(part)[1 if self.span_psi else 0] for part in torch.split(x, ROWS_AT_ONCE)]
        h = torch.cat(parts)
        return torch.cat([h, torch.ones_like(h[:, :1])], 1)

    def psi(self, x: Tensor) -> Tensor:
        """(B, k) what the network itself says, before alignment."""
        with torch.no_grad():
            return torch.cat([self._outputs(part)[1] for part in torch.split(x, ROWS_AT_ONCE)])

    def __call__(self, x: Tensor) -> Tensor:
        """(B, r) the ordered functions."""
        return torch.cat([self.span(part) @ self.head for part in torch.split(x, ROWS_AT_ONCE)])

    def _outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        dtype = next(self.network.parameters()).dtype
        features, psi = hidden_and_psi(self.network, self.standardise(x.double()).to(dtype))
        return features.double(), psi.double()


def shared_width(n_components: int) -> int:
    """Units of a shared hidden layer unless told: more than there are functions, which are combinations of them."""
    return max(256, 2 * n_components)


def make_network(
    network: Any, params: dict[str, Any], in_features: int, n_components: int, n_outputs: int, gain: float
) -> nn.Module:
    """An MLP by layout, its first layer `gain` times as steep as usual; a module is taken as it is."""
    if isinstance(network, nn.Module):
        if params:
            raise EigenmapError("A network that is given as a module takes no network_params; leave them out.")
        return network
    if network not in LAYOUTS:
        raise EigenmapError(f"The network must be one of {', '.join(LAYOUTS)} or a torch module, not {network!r}.")
    unknown = sorted(set(params) - {"width", "depth", "activation"})
    if unknown:
        raise EigenmapError(f"network_params has no {', '.join(unknown)}; it takes width, depth, activation.")
    separate = network == "separate"
    width = SEPARATE_WIDTH if separate else shared_width(n_components)
    made = MLP(in_features, n_outputs, separate=separate, **{"width": width, **params})
    first = made.hidden[0]
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.mul_(gain)
    return made
