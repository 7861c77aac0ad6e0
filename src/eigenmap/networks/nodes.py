"""Network whose inputs are node numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from eigenmap.core.devices import moved
from eigenmap.networks.network import Network
from eigenmap.networks.sparse import SparseRows


class NodeFeatures:
    """Features of all nodes; `rows(nodes)` gathers some of them on the device of the numbers.

    The features stay where they are: on the GPU, in memory, or in a memory-mapped file. They are not part of a
    network's state.
    """

    def __init__(self, x: Tensor | SparseRows) -> None:
        self.x = x

    def rows(self, nodes: Tensor) -> Tensor | SparseRows:
        """Return the features of these nodes."""
        found = self.x[nodes.to(self.x.device)]
        return moved(found, nodes.device) if isinstance(found, Tensor) else found.to(nodes.device)

    def __deepcopy__(self, memo: object) -> NodeFeatures:
        return self  # a copy of a network shares the features


class NodeNetwork(Network):
    """Node numbers (B,) -> (features, psi) of a network, applied to the features of these nodes.

    Training draws node numbers; their feature rows, dense or sparse, are gathered only here.

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
