"""Small graphs with known structure for the tests of the rivals."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from benchmarks.graphs.rivals.propagation import adjacency


def random_graph(n: int = 40, density: float = 0.15, seed: int = 0) -> sparse.csr_matrix:
    """An Erdos-Renyi graph made connected by a ring."""
    random = np.random.default_rng(seed)
    dense = np.triu(random.random((n, n)) < density, 1)
    ring = np.arange(n)
    first, second = np.nonzero(dense)
    edges = np.stack([np.concatenate([first, ring]), np.concatenate([second, (ring + 1) % n])])
    return adjacency(torch.from_numpy(edges), n)


def two_blocks(n: int = 200, seed: int = 0) -> tuple[sparse.csr_matrix, Tensor]:
    """Two communities; the labels say which."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 2
    chance = np.where(y[:, None] == y[None, :], 0.15, 0.01)
    first, second = np.nonzero(np.triu(random.random((n, n)) < chance, 1))
    return adjacency(torch.from_numpy(np.stack([first, second])), n), torch.from_numpy(y)


def noisy_features(y: Tensor, d: int = 16, signal: float = 0.4, seed: int = 0) -> Tensor:
    """Features that hold little of the class by themselves."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(len(y), d, generator=generator) + signal * (2.0 * y[:, None] - 1) * (torch.arange(d) < 4)
