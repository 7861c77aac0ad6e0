"""A network whose inputs are the numbers of nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from eigenmap.networks.network import Network
from eigenmap.networks.sparse import SparseRows


class NodeFeatures:
    """The features of all nodes; `rows(nodes)` gathers some of them onto the device the numbers are on.

    They stay where they are: on the GPU if they were put there, in memory, or in a memory-mapped file. They are no part
    of a network's state.
    """

    def __init__(self, x: Tensor | SparseRows) -> None:
        self.x = x

    def rows(self, nodes: Tensor) -> Tensor | SparseRows:
        """The features of these nodes."""
        return self.x[nodes.to(self.x.device)].to(nodes.device)

    def __deepcopy__(self, memo: object) -> NodeFeatures:
        return self  # a copy of a network reads the same features


class NodeNetwork(Network):
    """Node numbers (B,) -> (features, psi) of a network, applied to the features of these nodes.

    Training draws node numbers; the rows behind them, dense or sparse, are only gathered here.

    Example:
        >>> network = NodeNetwork(Network(ResidualMLP(100), n_components=32), NodeFeatures(x))
        >>> features, psi = network(torch.tensor([3, 1, 4]))

    """

    def __init__(self, network: Network, features: NodeFeatures) -> None:
        torch.nn.Module.__init__(self)
        self.encoder, self.projector, self.n_components = network.encoder, network.projector, network.n_components
        self.features = features

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map node numbers to features (B, out_features) and psi (B, n_components)."""
        return super().forward(self.features.rows(x))  # type: ignore[arg-type]
