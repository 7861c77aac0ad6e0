from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError
from eigenmap.networks import Network, build_encoder, encoder_width, freeze, is_frozen


def custom_encoder() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 10), nn.BatchNorm1d(10))


def test_returns_features_and_psi() -> None:
    network = Network(build_encoder("small-cnn", 1, 28), n_components=12, hidden=20)
    features, psi = network(torch.rand(4, 1, 28, 28))
    assert features.shape == (4, 256)
    assert psi.shape == (4, 12)
    assert network.n_components == 12
    assert network.projector.layers[0].out_features == 20
    assert {key.split(".")[0] for key in network.state_dict()} == {"encoder", "projector"}


def test_any_module_is_an_encoder() -> None:
    x = torch.rand(4, 3, 8, 8)
    by_dry_run = Network(custom_encoder(), 5, example_shape=(3, 8, 8))
    by_argument = Network(custom_encoder(), 5, out_features=10)
    for network in (by_dry_run, by_argument):
        features, psi = network(x)
        assert features.shape == (4, 10)
        assert psi.shape == (4, 5)


def test_dry_run_leaves_no_trace() -> None:
    encoder = custom_encoder()
    encoder[1].eval()
    before = {key: tensor.clone() for key, tensor in encoder.state_dict().items()}
    assert encoder_width(encoder, (3, 8, 8)) == 10
    assert [module.training for module in encoder] == [True, False, True]
    assert all(torch.equal(before[key], tensor) for key, tensor in encoder.state_dict().items())


def test_unknown_width_says_what_to_do() -> None:
    with pytest.raises(EigenmapError, match="out_features"):
        Network(custom_encoder(), 5)


def test_encoder_that_does_not_fit_its_input() -> None:
    with pytest.raises(EigenmapError, match=r"\(3, 9, 9\)"):
        Network(custom_encoder(), 5, example_shape=(3, 9, 9))


class Pairs(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


@pytest.mark.parametrize(("encoder", "found"), [(nn.Conv2d(3, 4, 1), r"\(2, 4, 8, 8\)"), (Pairs(), "tuple")])
def test_encoder_must_return_vectors(encoder: nn.Module, found: str) -> None:
    with pytest.raises(EigenmapError, match=f"not {found}"):
        Network(encoder, 5, example_shape=(3, 8, 8))


def test_needs_a_component() -> None:
    with pytest.raises(EigenmapError, match="n_components"):
        Network(build_encoder("small-cnn"), 0)


def test_frozen_encoder_does_not_change_while_the_projector_trains() -> None:
    torch.manual_seed(0)
    network = Network(freeze(build_encoder("small-cnn", 1, 8)), 4)
    before = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    network.train()
    assert is_frozen(network.encoder)
    assert not any(module.training for module in network.encoder.modules())
    assert all(module.training for module in network.projector.modules())
    optimiser = torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=0.1)
    network(torch.rand(8, 1, 8, 8))[1].square().sum().backward()
    optimiser.step()
    for key, tensor in network.state_dict().items():
        if key.startswith("encoder."):
            assert torch.equal(before[key], tensor), key
    assert not torch.equal(before["projector.layers.3.weight"], network.projector.layers[3].weight)


def test_an_encoder_without_parameters_or_with_trained_ones_is_not_frozen() -> None:
    assert not is_frozen(nn.Flatten())
    assert not is_frozen(build_encoder("small-cnn"))
