"""Projector: the head that maps encoder features to psi, the n_components functions seen by the objectives."""

from __future__ import annotations

from torch import Tensor, nn


class Projector(nn.Module):
    """psi = W2 relu(BN(W1 h)) + b2, the projector of Neural Eigenmaps (Deng, Shi, Zhu; ICLR 2024).

    W1 has no bias, which BN would cancel. The hidden BN is required: without it, the ordered objective does not
    converge.

    Args:
        in_features: length of h, the encoder's output.
        out_features: length of psi.
        hidden_features: width of the hidden layer; default `out_features`.

    Example:
        >>> Projector(512, 128)(torch.rand(8, 512)).shape
        torch.Size([8, 128])

    """

    def __init__(self, in_features: int, out_features: int, hidden_features: int | None = None) -> None:
        super().__init__()
        self.in_features = in_features
        self.hidden_features = out_features if hidden_features is None else hidden_features
        self.layers = nn.Sequential(
            nn.Linear(in_features, self.hidden_features, bias=False),
            nn.BatchNorm1d(self.hidden_features),
            nn.ReLU(inplace=True),
            nn.Linear(self.hidden_features, out_features),
        )

    def forward(self, features: Tensor) -> Tensor:
        """Map features (B, in_features) to psi (B, out_features)."""
        psi: Tensor = self.layers(features)
        return psi
