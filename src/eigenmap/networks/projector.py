"""Projector: the head that maps encoder features to psi, the n_components functions seen by the objectives."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from eigenmap.core.arguments import whole_number

MOST_LAYERS = 16
"""Maximum number of layers; a larger number must be a mistake."""


class Projector(nn.Module):
    """psi = W2 relu(BN(W1 h)) + b2, the projector of Neural Eigenmaps (Deng, Shi, Zhu; ICLR 2024).

    W1 has no bias, which BN would cancel. The hidden BN is required: without it, the ordered objective does not
    converge.

    Args:
        in_features: length of h, the encoder's output.
        out_features: length of psi.
        hidden_features: width of the hidden layers; default `out_features`.
        layers: number of linear layers; above 2, the hidden layer with its BN and ReLU is repeated.

    Example:
        >>> Projector(512, 128)(torch.rand(8, 512)).shape
        torch.Size([8, 128])

    """

    def __init__(
        self, in_features: int, out_features: int, hidden_features: int | None = None, layers: int = 2
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.hidden_features = out_features if hidden_features is None else hidden_features
        self.n_layers = whole_number(layers, "projector_layers", low=2, high=MOST_LAYERS)
        widths = [in_features, *[self.hidden_features] * (layers - 1)]
        hidden = [
            (nn.Linear(before, after, bias=False), nn.BatchNorm1d(after), nn.ReLU(inplace=True))
            for before, after in pairwise(widths)
        ]
        self.layers = nn.Sequential(*(module for layer in hidden for module in layer))
        self.layers.append(nn.Linear(self.hidden_features, out_features))

    def forward(self, features: Tensor) -> Tensor:
        """Map features (B, in_features) to psi (B, out_features)."""
        psi: Tensor = self.layers(features)
        return psi
