"""Multilayer perceptrons for vectors: smooth functions of a few numbers, for the eigenfunctions of kernels."""

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
"""Smooth nonlinearities by name. Eigenfunctions of smooth kernels are smooth; the kinks of ReLU are not in them."""


class MLP(nn.Module):
    """x -> (features, psi): `depth` hidden layers, psi a linear function of the last one.

    No normalisation between the layers: the value at a point depends on that point alone, as that of a function does.
    Inputs should have about unit size.

    Two layouts. One trunk with k outputs, or (`separate=True`) k networks that share nothing, each a trunk of `width`
    with one output: the layout of NeuralEF (Deng, Shi, Zhu; ICML 2022). Separate networks cannot disturb each other
    and cost k times as much; they are computed as one batched product a layer. Their `features` are the last hidden
    layers of all of them, one after the other.

    Args:
        in_features: length of x.
        n_components: number k of functions.
        width: units in a hidden layer.
        depth: number of hidden layers.
        activation: one of `ACTIVATIONS`.
        separate: k networks instead of one.

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
        in_features, n_components, width, depth = (int(size) for size in sizes.values())  # of numpy, maybe
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
    """Several affine maps of equal shape side by side: h (networks, B, in) -> h W + b (networks, B, out).

    Each starts as torch's `nn.Linear` does: uniform in +- in_features^-1/2.
    """

    def __init__(self, networks: int, in_features: int, out_features: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(in_features)
        self.weight = nn.Parameter(torch.empty(networks, in_features, out_features).uniform_(-bound, bound))
        # A vector, so that optimizers which spare biases (parameters with one dimension) know it for one.
        self.bias = nn.Parameter(torch.empty(networks * out_features).uniform_(-bound, bound))

    def forward(self, h: Tensor) -> Tensor:
        """Apply map number i to h[i]."""
        return torch.baddbmm(self.bias.view(len(self.weight), 1, -1), h, self.weight)


def _side_by_side(h: Tensor) -> Tensor:
    """Turn (networks, B, width) into (B, networks * width)."""
    return h.transpose(0, 1).flatten(1)
