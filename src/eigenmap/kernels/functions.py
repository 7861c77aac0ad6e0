"""Learned functions: a network with a closed-form last layer, ready for evaluation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError
from eigenmap.kernels.train import hidden_and_psi
from eigenmap.networks import MLP
from eigenmap.relations.operator import uniform

ROWS_AT_ONCE = 8192
"""Number of points passed through the network at a time."""
LAYOUTS = ("auto", "shared", "separate")
SEPARATE_WIDTH = 32
"""Units per hidden layer of each separate network."""


class Standardise:
    """x -> (x - mean) / scale per coordinate; constant coordinates keep their scale."""

    def __init__(self, x: Tensor, p: Tensor | None = None) -> None:
        x = x.double()
        p = uniform(len(x)).to(x) if p is None else (p / p.sum()).to(x)
        self.mean = p @ x
        deviation = (p @ (x - self.mean).square()).sqrt()
        constant = deviation <= 1e-12 * self.mean.abs()
        self.scale = torch.where(constant | (deviation == 0), 1.0, deviation)

    @classmethod
    def by(cls, mean: Tensor, scale: Tensor) -> Standardise:
        """Build from given mean and scale."""
        made = cls.__new__(cls)
        made.mean, made.scale = mean, scale
        return made

    def __call__(self, x: Tensor) -> Tensor:
        """Return coordinates of about unit size, in the precision of x."""
        return ((x - self.mean.to(x.device)) / self.scale.to(x.device)).to(x.dtype)


class Functions:
    """span(x) = (hidden layer, 1), and the functions span(x) @ head.

    `span_psi` uses the network's k outputs instead of the hidden layer, which may be too wide, as with separate
    networks.
    """

    def __init__(self, network: nn.Module, standardise: Standardise, span_psi: bool) -> None:
        self.network, self.standardise, self.span_psi = network, standardise, span_psi
        self.head = torch.empty(0, 0)

    def span(self, x: Tensor) -> Tensor:
        """Return (B, m) functions to be combined, in float64; the last one is the constant."""
        with torch.no_grad():
            parts = [self._outputs(part)[1 if self.span_psi else 0] for part in torch.split(x, ROWS_AT_ONCE)]
        h = torch.cat(parts)
        return torch.cat([h, torch.ones_like(h[:, :1])], 1)

    def psi(self, x: Tensor) -> Tensor:
        """Return (B, k) outputs of the network before alignment."""
        with torch.no_grad():
            return torch.cat([self._outputs(part)[1] for part in torch.split(x, ROWS_AT_ONCE)])

    def __call__(self, x: Tensor) -> Tensor:
        """Return (B, r) ordered functions."""
        return torch.cat([self.span(part) @ self.head for part in torch.split(x, ROWS_AT_ONCE)])

    def _outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        dtype = next(self.network.parameters()).dtype
        features, psi = hidden_and_psi(self.network, self.standardise(x.double()).to(dtype))
        return features.double(), psi.double()


def shared_width(n_components: int) -> int:
    """Return the default width of a shared hidden layer, larger than the number of functions it must span."""
    return max(256, 2 * n_components)


def make_network(
    network: Any, params: dict[str, Any], in_features: int, n_components: int, n_outputs: int, gain: float
) -> nn.Module:
    """Build an MLP by layout, its first layer `gain` times as steep as usual; a module is used unchanged."""
    if isinstance(network, nn.Module):
        if params:
            raise EigenmapError("network_params cannot be combined with a network module; leave them out.")
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
