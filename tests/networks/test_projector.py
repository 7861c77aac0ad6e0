from __future__ import annotations

import torch

from eigenmap.networks import Projector


def test_matches_the_definition() -> None:
    torch.manual_seed(0)
    projector = Projector(6, 5, hidden_features=7).double()
    first, norm, _, last = projector.layers
    h = torch.randn(16, 6, dtype=torch.float64)
    z = h @ first.weight.T
    z = (z - z.mean(0)) / torch.sqrt(z.var(0, unbiased=False) + norm.eps)
    expected = torch.relu(z * norm.weight + norm.bias) @ last.weight.T + last.bias
    torch.testing.assert_close(projector(h), expected, rtol=1e-12, atol=1e-12)


def test_hidden_width_is_the_output_width_by_default() -> None:
    shapes = {key: tuple(p.shape) for key, p in Projector(6, 5).named_parameters()}
    assert shapes == {
        "layers.0.weight": (5, 6),
        "layers.1.weight": (5,),
        "layers.1.bias": (5,),
        "layers.3.weight": (5, 5),
        "layers.3.bias": (5,),
    }
