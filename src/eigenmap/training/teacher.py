"""Teacher: a copy of the network that follows it slowly and is not trained."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from eigenmap.loading.store import send


class Teacher(nn.Module):
    """Copy of a network, in training mode like the original, so that BatchNorm uses the batch.

    teacher = Teacher(network, groups=8)
    psi = teacher(views, order=torch.randperm(len(views)))
    teacher.follow(network, momentum=0.99)
    """

    def __init__(self, network: nn.Module, groups: int = 1) -> None:
        super().__init__()
        self.network = copy.deepcopy(network)
        for parameter in self.network.parameters():
            parameter.requires_grad_(False)
        self.groups = groups

    @torch.no_grad()
    def forward(self, views: Tensor, order: Tensor) -> Tensor:
        """Return codes psi of the views; with several groups, `order` says which views form a group."""
        groups = min(self.groups, len(views) // 2)  # BatchNorm needs two views per group
        if groups <= 1:
            return self._codes(views)
        order = send(order, views.device)
        psi = torch.cat([self._codes(views[part]) for part in order.tensor_split(groups)])
        return torch.empty_like(psi).index_copy_(0, order, psi)

    def _codes(self, views: Tensor) -> Tensor:
        _, psi = self.network(views)
        codes: Tensor = psi
        return codes

    @torch.no_grad()
    def follow(self, network: nn.Module, momentum: float) -> None:
        """Move every weight towards that of the network: w <- m w + (1 - m) w_network."""
        own: list[Tensor] = list(self.network.parameters())
        theirs: list[Tensor] = list(network.parameters())
        torch._foreach_lerp_(own, theirs, 1 - momentum)
