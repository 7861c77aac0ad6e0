"""A small graph with known structure for tests: blocks of nodes, and features that hint at the block."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Blocks(NamedTuple):
    x: npt.NDArray[np.float32]
    edge_index: npt.NDArray[np.int64]
    y: npt.NDArray[np.int64]


def blocks(n: int = 120, classes: int = 3, degree: int = 6, noise: float = 1.0, seed: int = 0) -> Blocks:
    """Nodes mostly linked within their block; features are a noisy mean of the block."""
    rng: Any = np.random.default_rng(seed)
    y = np.arange(n) % classes
    means = rng.normal(size=(classes, 8))
    x = (means[y] + noise * rng.normal(size=(n, 8))).astype(np.float32)
    source = rng.integers(n, size=n * degree // 2)
    # Nine of ten partners come from the same block.
    same = rng.random(len(source)) < 0.9
    target = np.where(
        same, (source + classes * rng.integers(1, n // classes, len(source))) % n, rng.integers(n, size=len(source))
    )
    return Blocks(x, np.stack([source, target]), y)
