"""Small models of vectors, linear and neural, with random numbers in them."""

from __future__ import annotations

import torch

from eigenmap import Eigenmap
from eigenmap.data.vectors.input import VectorInput
from eigenmap.networks.vectors import VectorEncoderSpec
from eigenmap.spectrum import Alignment

LENGTH, FEATURES = 12, 7


def vector_model(unit: bool, width: int = 0, seed: int = 0, length: int = LENGTH) -> Eigenmap:
    """A model of `FEATURES` features with a mean, weights and a rotation that is not orthogonal."""
    torch.manual_seed(seed)
    spec = VectorEncoderSpec(width)
    network = spec.build(length, unit, FEATURES if width else length)
    if width:
        torch.nn.init.normal_(network.projector.correction.weight)
    rows = FEATURES if width else length
    mu = torch.linspace(0.9, 0.2, FEATURES, dtype=torch.float64)
    mean, rotation = torch.randn(rows, dtype=torch.float64), torch.randn(rows, FEATURES, dtype=torch.float64)
    alignment = Alignment(mean, rotation, mu, torch.ones(FEATURES, dtype=torch.float64), t=0.5)
    source = "projector" if width else "encoder"
    return Eigenmap(network, alignment, source, VectorInput(length, unit), spec)  # type: ignore[arg-type]
