from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError
from eigenmap.networks import MLP
from eigenmap.networks.mlp import ACTIVATIONS

ACTIVATION_LAYERS = {"gelu": nn.GELU(), "silu": nn.SiLU(), "tanh": nn.Tanh()}


def x(rows: int = 5, columns: int = 3) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def parts(mlp: MLP, number: int) -> nn.Sequential:
    """Network `number` of an MLP, rebuilt from torch's own layers."""
    layers: list[nn.Module] = []
    for layer in [*mlp.hidden, mlp.head]:
        weight = layer.weight[number]
        linear = nn.Linear(*weight.shape).double()
        linear.weight.data = weight.data.T
        linear.bias.data = layer.bias.data.view(len(layer.weight), -1)[number]
        layers += [linear, ACTIVATION_LAYERS[mlp.activation]]
    return nn.Sequential(*layers[:-1])


@pytest.mark.parametrize("activation", ACTIVATION_LAYERS)
@pytest.mark.parametrize("separate", [False, True], ids=["shared", "separate"])
@pytest.mark.parametrize("depth", [1, 3])
def test_is_torchs_layers_in_a_row(activation: str, separate: bool, depth: int) -> None:
    mlp = MLP(3, 4, width=6, depth=depth, activation=activation, separate=separate).double()
    features, psi = mlp(x())
    networks = [parts(mlp, number) for number in range(4 if separate else 1)]
    torch.testing.assert_close(psi, torch.cat([network(x()) for network in networks], 1))
    torch.testing.assert_close(features, torch.cat([network[:-1](x()) for network in networks], 1))
    assert features.shape == (5, mlp.out_features)


def test_separate_networks_share_nothing() -> None:
    """Each function depends on a part of every parameter that no other function depends on."""
    mlp = MLP(3, 4, width=6, separate=True)
    touched = []
    for j in range(4):
        mlp.zero_grad()
        mlp(x().float())[1][:, j].sum().backward()
        touched.append(torch.cat([p.grad.flatten() != 0 for p in mlp.parameters()]))
    assert all(mine.any() for mine in touched)
    assert not any((one & two).any() for one, two in itertools.combinations(touched, 2))


def test_a_function_of_the_point_alone() -> None:
    """A value does not depend on the rest of the batch, even in training mode."""
    mlp = MLP(3, 4).double().train()
    torch.testing.assert_close(mlp(x())[1][:1], mlp(x()[:1])[1])


def test_starts_like_torch() -> None:
    torch.manual_seed(0)
    ours, theirs = MLP(50, 7, width=400, depth=1).hidden[0], nn.Linear(50, 400)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert float(mine.detach().abs().max()) <= 50**-0.5
        assert float(mine.detach().std()) == pytest.approx(float(other.detach().std()), rel=0.1)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_smooth(activation: str) -> None:
    """Twice differentiable, with second derivatives that are not zero everywhere."""
    mlp = MLP(1, 2, width=8, activation=activation).double()
    line = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None].requires_grad_()
    (slope,) = torch.autograd.grad(mlp(line)[1].sum(), line, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), line)
    assert (curvature != 0).all() and torch.isfinite(curvature).all()


@pytest.mark.parametrize(
    "options",
    [{"in_features": 0}, {"n_components": 2.5}, {"width": True}, {"depth": -1}, {"activation": "relu"}],
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(EigenmapError, match=next(iter(options))):
        MLP(**{"in_features": 3, "n_components": 4, **options})


def test_sizes_may_be_numpys() -> None:
    sizes = {name: np.int64(size) for name, size in {"n_components": 4, "width": 8, "depth": 3}.items()}
    mlp = MLP(3, **sizes)
    assert len(mlp.hidden) == 3
    assert mlp(torch.zeros(2, 3))[1].shape == (2, 4)
