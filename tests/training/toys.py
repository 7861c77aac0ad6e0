"""Network, relation and held-out pairs that train in milliseconds."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eigenmap.core.batch import Batch

INPUTS, HIDDEN, FEATURES, BATCH = 6, 16, 8, 32


class ToyNetwork(nn.Module):
    """x -> (features, psi); norms and dropout add buffers and random numbers that a resume must restore."""

    def __init__(self, norm: bool = True, dropout: float = 0.2, n_components: int = FEATURES, seed: int = 0) -> None:
        super().__init__()
        generator_state = torch.get_rng_state()
        torch.manual_seed(seed)
        self.encoder = nn.Sequential(
            nn.Linear(INPUTS, HIDDEN),
            nn.BatchNorm1d(HIDDEN) if norm else nn.Identity(),
            nn.Tanh(),
            nn.Dropout(dropout) if dropout else nn.Identity(),
        )
        self.projector = nn.Linear(HIDDEN, n_components)
        self.n_components = n_components
        torch.set_rng_state(generator_state)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.encoder(x)
        return features, self.projector(features)


class ToyRelation:
    """Points and noisy copies, as a function of the step; each process has its own rows."""

    def __init__(
        self, rank: int = 0, world_size: int = 1, dtype: torch.dtype = torch.float32, weighted: bool = False
    ) -> None:
        self.rank, self.world_size, self.dtype, self.weighted = rank, world_size, dtype, weighted

    def batch(self, step: int) -> Batch:
        generator = torch.Generator().manual_seed(1000 + step)
        x = torch.randn(BATCH, INPUTS, generator=generator, dtype=self.dtype)
        x_plus = x + 0.3 * torch.randn(BATCH, INPUTS, generator=generator, dtype=self.dtype)
        weights = torch.rand(BATCH, generator=generator, dtype=self.dtype) if self.weighted else None
        mine = slice(self.rank * BATCH // self.world_size, (self.rank + 1) * BATCH // self.world_size)
        return Batch(x[mine], x_plus[mine], None if weights is None else weights[mine])


def held_out() -> list[Batch]:
    return [ToyRelation().batch(-1), ToyRelation().batch(-2)]
