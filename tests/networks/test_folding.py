from __future__ import annotations

from typing import Any

import pytest
import scipy.sparse
import torch

from eigenmap import EigenmapError
from eigenmap.networks import Network, ResidualMLP, SmallCNN, SparseRows
from eigenmap.networks.folding import Folding, Inference


def trained(blocks: int = 2, standardised: bool = False) -> Network:
    """Network whose BatchNorm statistics differ from the initial ones."""
    torch.manual_seed(0)
    encoder = ResidualMLP(12, width=16, blocks=blocks)
    if standardised:
        encoder.standardise(torch.randn(12), torch.rand(12) + 0.5)
    network = Network(encoder, 5, hidden=7)
    for norm in network.modules():
        if isinstance(norm, torch.nn.BatchNorm1d):
            torch.nn.init.normal_(norm.weight, 1.0, 0.3)
            torch.nn.init.normal_(norm.bias)
    network.train()
    for _ in range(3):
        network(torch.randn(64, 12) * 2 + 1)
    return network.eval()


@pytest.mark.parametrize("blocks", [0, 2])
@pytest.mark.parametrize("output", ["encoder", "projector"])
@pytest.mark.parametrize("kind", ["dense", "standardised", "sparse", "ones"])
def test_folded_layers_are_the_network_in_float64(blocks: int, output: Any, kind: str) -> None:
    network = trained(blocks, kind == "standardised")
    x = torch.randn(9, 12) * (torch.rand(9, 12) < 0.5)
    x = (x != 0).float() if kind == "ones" else x
    given: Any = x
    if kind in ("sparse", "ones"):
        given = SparseRows.of(scipy.sparse.csr_matrix(x.numpy()))
        given = SparseRows(given.offsets, given.columns, None, 12) if kind == "ones" else given
    run = Folding().of(network, output, Inference())
    assert run is not None
    with torch.no_grad():
        features, psi = trained(blocks, kind == "standardised").double()(x.double())
        found = run(given)
    torch.testing.assert_close(found.double(), features if output == "encoder" else psi, atol=1e-5, rtol=1e-5)


def test_a_network_made_in_inference_mode_is_folded_too() -> None:
    x = torch.randn(4, 12)
    with torch.inference_mode():
        network = Network(ResidualMLP(12, width=16, blocks=1), 5).eval()
        run = Folding().of(network, "encoder", Inference())
        assert run is not None
        torch.testing.assert_close(run(x), network(x)[0], atol=1e-5, rtol=1e-5)


def test_layers_are_rebuilt_when_a_module_or_the_network_is_replaced() -> None:
    network, folding, x = trained(), Folding(), torch.randn(4, 12)
    folding.of(network, "encoder", Inference())
    folding.of(network, "projector", Inference())
    network.encoder.norm = torch.nn.BatchNorm1d(16).eval()  # type: ignore[union-attr, assignment]
    other = Network(ResidualMLP(12, width=16, blocks=2), 5).eval()
    for each in (network, other, network):
        for place, output in enumerate(("encoder", "projector")):
            run = folding.of(each, output, Inference())  # type: ignore[arg-type]
            assert run is not None
            with torch.no_grad():
                torch.testing.assert_close(run(x), each(x)[place], atol=1e-5, rtol=1e-5)


def test_layers_are_rebuilt_when_weights_change() -> None:
    network, folding, x = trained(), Folding(), torch.randn(4, 12)
    first = folding.of(network, "encoder", Inference())
    assert folding.of(network, "encoder", Inference()) is first
    with torch.no_grad():
        network.encoder.stem.weight.mul_(2)  # type: ignore[union-attr, operator]
    second = folding.of(network, "encoder", Inference())
    assert first is not None and second is not None and second is not first
    with torch.no_grad():
        torch.testing.assert_close(second(x), network(x)[0], atol=1e-5, rtol=1e-5)
    network.load_state_dict(trained(2, True).state_dict())
    third = folding.of(network, "encoder", Inference())
    assert third is not None
    with torch.no_grad():
        torch.testing.assert_close(third(x), network(x)[0], atol=1e-5, rtol=1e-5)


def test_other_encoders_and_training_are_left_alone() -> None:
    assert Folding().of(Network(SmallCNN(3), 5).eval(), "encoder", Inference()) is None
    assert Folding().of(trained().train(), "encoder", Inference()) is None


def test_half_precision_is_close() -> None:
    network, x = trained(), torch.randn(50, 12)
    run = Folding().of(network, "projector", Inference("bfloat16"))
    assert run is not None
    with torch.no_grad():
        found, right = run(x), network(x)[1]
    assert found.dtype == torch.float32
    assert torch.nn.functional.cosine_similarity(found, right).min() > 0.999
    with pytest.raises(EigenmapError, match='precision must be "float32" or "bfloat16"'):
        Inference("int8")  # type: ignore[arg-type]
