"""Reproducible random streams that depend only on a seed, a purpose and a step."""

from __future__ import annotations

import numpy as np
import torch


def stream(seed: int, purpose: int, number: int) -> torch.Generator:
    """Return an independent stream of random numbers for each (seed, purpose, number)."""
    entropy = (seed % 2**64, purpose, number)
    return torch.Generator().manual_seed(int(np.random.SeedSequence(entropy).generate_state(1)[0]))
