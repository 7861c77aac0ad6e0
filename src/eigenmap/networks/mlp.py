"""Multilayer perceptrons for vectors, used for the eigenfunctions of kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from numbers import Integral

import torch
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": nn.functional.gelu,
    "silu": nn.functional.silu,
    "sine": torch.sin,
    "tanh": torch.tanh,
}
"""Smooth nonlinearities by name. Eigenfunctions of smooth kernels are smooth, which ReLU is not."""


class MLP(nn.Module):
    """x -> (features, psi): `depth` hidden layers, psi a linear function of the last one.

    There is no normalisation between the layers: the value at a point depends on that point alone, as for any function.
    Inputs should have about unit size.

    Two layouts: one trunk with k outputs, or (`separate=True`) k independent networks, each a trunk of `width` with one
    output, as in NeuralEF (Deng, Shi, Zhu; ICML 2022). Separate networks cannot disturb each other and cost k times as
    much; they are computed as one batched product per layer. Their `features` are the concatenated last hidden layers.

    Args:
        in_features: length of x.
        n_components: number k of functions.
        width: units per hidden layer.
        depth: number of hidden layers.
        activation: one of `ACTIVATIONS`.
        separate: whether to use k networks instead of one.

    Example:
        >>> features, psi = MLP(in_features=2, n_components=10)(torch.rand(64, 2))
        >>> psi.shape
        torch.Size([64, 10])

    """

    def __init__(
        self,
        in_features: int,
        n_components: int,
        width: int = 256,
        depth: int = 2,
        activation: str = "gelu",
        separate: bool = False,
    ) -> None:
        super().__init__()
        sizes = {"in_features": in_features, "n_components": n_components, "width": width, "depth": depth}
        for name, size in sizes.items():
            if not isinstance(size, Integral) or isinstance(size, bool) or size < 1:
                raise EigenmapError(f"{name} must be a whole number of at least 1, not {size!r}.")
        in_features, n_components, width, depth = (int(size) for size in sizes.values())  # may be NumPy integers
        if activation not in ACTIVATIONS:
            raise EigenmapError(f"The activation must be one of {', '.join(ACTIVATIONS)}, not {activation!r}.")
        networks = n_components if separate else 1
        self.in_features, self.n_components, self.out_features = in_features, n_components, networks * width
        self.activation, self.separate = activation, separate
        widths = [in_features, *[width] * depth]
        self.hidden = nn.ModuleList(ParallelLinear(networks, *pair) for pair in pairwise(widths))
        self.head = ParallelLinear(networks, width, n_components // networks)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map vectors (B, in_features) to the last hidden layer (B, out_features) and psi (B, n_components)."""
        activation = ACTIVATIONS[self.activation]
        h = x.expand(len(self.head.weight), *x.shape)
        for layer in self.hidden:
            h = activation(layer(h))
        return _side_by_side(h), _side_by_side(self.head(h))


class ParallelLinear(nn.Module):
    """Several affine maps of equal shape in parallel: h (networks, B, in) -> h W + b (networks, B, out).

    Initialised like torch's `nn.Linear`: uniform in +- in_features^-1/2.
    """

    def __init__(self, networks: int, in_features: int, out_features: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(in_features)
        self.weight = nn.Parameter(torch.empty(networks, in_features, out_features).uniform_(-bound, bound))
        # One-dimensional, so that optimizers which treat biases separately recognise it.
        self.bias = nn.Parameter(torch.empty(networks * out_features).uniform_(-bound, bound))

    def forward(self, h: Tensor) -> Tensor:
        """Apply map number i to h[i]."""
        return torch.baddbmm(self.bias.view(len(self.weight), 1, -1), h, self.weight)


def _side_by_side(h: Tensor) -> Tensor:
    """Turn (networks, B, width) into (B, networks * width)."""
    return h.transpose(0, 1).flatten(1)
