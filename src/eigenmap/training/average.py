r"""Average of the weights over the steps of a run, which replaces the weights at its end.

    average <- m_s average + (1 - m_s) w,    m_s = min(m, (1 + s) / (10 + s)) after step s

The first steps, whose weights are far from the final ones, are soon forgotten. Running statistics of BatchNorm are
averaged like the weights.

Polyak, Juditsky: Acceleration of Stochastic Approximation by Averaging, 1992.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class WeightAverage:
    """Exponential average of everything in a network's state.

    average = WeightAverage(network, momentum=0.999)
    average.follow(network, step)           # after every step
    average.copy_to(network)                # at the end
    """

    def __init__(self, network: nn.Module, momentum: float) -> None:
        self.momentum = momentum
        self.state = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}

    @torch.no_grad()
    def follow(self, network: nn.Module, step: int) -> None:
        """Move the average towards the weights after a step; counters are copied."""
        momentum = min(self.momentum, (1 + step) / (10 + step))
        state = network.state_dict()
        moving = [name for name, tensor in state.items() if tensor.is_floating_point()]
        torch._foreach_lerp_([self.state[name] for name in moving], [state[name] for name in moving], 1 - momentum)
        for name in state.keys() - set(moving):
            self.state[name].copy_(state[name])

    def load(self, state: dict[str, Tensor]) -> None:
        """Restore the average of a checkpoint."""
        if state.keys() != self.state.keys():
            raise KeyError("another network")
        for name, tensor in state.items():
            self.state[name].copy_(tensor)

    def copy_to(self, network: nn.Module) -> None:
        """Replace the network's weights by their average."""
        network.load_state_dict(self.state)
