"""Towers for inputs other than vectors, addressed by row number."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from eigenmap.networks.network import Network


class NumberedTower(nn.Module):
    """A network called with row numbers (B, 1), so that it can be one side of a `PairNetwork`.

    Args:
        network: the network of the inputs themselves.
        see: called as see(numbers, training), returns the network's inputs for these rows.

    """

    def __init__(self, network: Network, see: Callable[[Tensor, bool], Tensor]) -> None:
        super().__init__()
        self.network, self.see = network, see

    @property
    def projector(self) -> nn.Module:
        """The projector of the network."""
        return self.network.projector

    def encoder(self, rows: Tensor) -> Tensor:
        """Map row numbers (B, 1) to features."""
        features: Tensor = self.network.encoder(self.see(rows[:, 0].long(), self.training))
        return features

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Map row numbers (B, 1) to features and psi."""
        features = self.encoder(rows)
        return features, self.projector(features)
