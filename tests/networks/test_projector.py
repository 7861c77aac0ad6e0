from __future__ import annotations

import pytest
import torch

from eigenmap.core.errors import EigenmapError
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


def test_more_layers_repeat_the_hidden_one() -> None:
    torch.manual_seed(0)
    projector = Projector(6, 5, hidden_features=7, layers=4).double()
    z = torch.randn(16, 6, dtype=torch.float64)
    h = z
    for linear, norm, _ in (projector.layers[i : i + 3] for i in (0, 3, 6)):
        h = h @ linear.weight.T
        h = (h - h.mean(0)) / torch.sqrt(h.var(0, unbiased=False) + norm.eps)
        h = torch.relu(h * norm.weight + norm.bias)
    expected = h @ projector.layers[9].weight.T + projector.layers[9].bias
    torch.testing.assert_close(projector(z), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layers", [0, 1, 17, 2.5])
def test_a_bad_number_of_layers_is_refused(layers: object) -> None:
    with pytest.raises(EigenmapError, match="projector_layers must be a whole number from 2 to 16"):
        Projector(6, 5, layers=layers)  # type: ignore[arg-type]
