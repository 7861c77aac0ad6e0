from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from torch import Tensor, nn

from eigenmap import EigenmapError
from eigenmap.networks import ResidualMLP, SparseRows
from eigenmap.networks.residual_mlp import InputLayer


def test_it_has_one_and_five_times_two_linear_layers() -> None:
    network = ResidualMLP(30, width=16)
    layers = [m for m in network.modules() if isinstance(m, nn.Linear | InputLayer)]
    assert len(layers) == 11
    assert sum(isinstance(m, nn.BatchNorm1d) for m in network.modules()) == 11
    assert network(torch.rand(4, 30)).shape == (4, network.out_features) == (4, 16)


def test_it_is_the_equation_of_its_docstring() -> None:
    torch.manual_seed(0)
    network = ResidualMLP(6, width=5, blocks=2).double().eval()
    for norm in (m for m in network.modules() if isinstance(m, nn.BatchNorm1d)):
        for value in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
            value.data.uniform_(0.5, 1.5)

    def bn(norm: nn.BatchNorm1d, h: Tensor) -> Tensor:
        assert norm.running_mean is not None and norm.running_var is not None
        return (h - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias

    x = torch.randn(9, 6, dtype=torch.float64)
    h = bn(network.norm, x @ network.stem.weight).clamp(min=0)
    for block in network.blocks:
        first, norm, _, second, last = block.layers
        inner = bn(norm, h @ first.weight.T).clamp(min=0)
        h = (h + bn(last, inner @ second.weight.T)).clamp(min=0)
    torch.testing.assert_close(network(x), h, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("binary", [False, True])
def test_sparse_rows_give_what_dense_rows_give_with_gradients(binary: bool) -> None:
    torch.manual_seed(0)
    m = scipy.sparse.random(8, 12, density=0.3, random_state=np.random.default_rng(0), format="csr")
    rows = SparseRows.of(m)
    if binary:
        rows = SparseRows(rows.offsets, rows.columns, None, rows.width)
    dense = rows.dense().double() if binary else torch.from_numpy(m.toarray())
    network = ResidualMLP(12, width=6, blocks=1).double()
    gradients = []
    outputs = []
    for x in (dense, rows):
        network.zero_grad()
        out = network(x)
        (out.square() * torch.arange(6)).sum().backward()
        outputs.append(out.detach())
        gradients.append([p.grad.clone() for p in network.parameters() if p.grad is not None])
    torch.testing.assert_close(outputs[1], outputs[0])
    torch.testing.assert_close(gradients[1], gradients[0])


def test_dense_features_are_standardised_by_what_is_stored_with_the_weights() -> None:
    x = torch.randn(500, 3) * torch.tensor([1.0, 1000.0, 0.0]) + torch.tensor([5.0, -7.0, 2.0])
    network = ResidualMLP(3, width=4, blocks=0).eval()
    plain = ResidualMLP(3, width=4, blocks=0).eval()
    network.standardise(x.mean(0), x.std(0))
    other = ResidualMLP(3, width=4, blocks=0).eval()
    other.load_state_dict(network.state_dict())
    plain.load_state_dict({**network.state_dict(), "shift": torch.zeros(3), "scale": torch.ones(3)})
    # The constant third feature is ignored and stays finite.
    expected = torch.stack([(x[:, 0] - x[:, 0].mean()) / x[:, 0].std(), (x[:, 1] - x[:, 1].mean()) / x[:, 1].std()])
    standard = torch.cat([expected, torch.zeros(1, 500)]).T
    torch.testing.assert_close(other(x), plain(standard), rtol=1e-4, atol=1e-4)
    # Sparse rows give the same output, also with loaded weights.
    sparse = SparseRows.of(scipy.sparse.csr_matrix(x.numpy()))
    for standardised in (network, other):
        torch.testing.assert_close(standardised(sparse), standardised(x))


@pytest.mark.parametrize("sparse", [False, True])
def test_feature_dropout_hides_features_in_training_only(sparse: bool) -> None:
    torch.manual_seed(0)
    ones = torch.ones(200, 40)
    x = SparseRows.of(scipy.sparse.csr_matrix(ones.numpy())) if sparse else ones
    network = ResidualMLP(40, width=4, feature_dropout=0.25)
    hidden = network._hide(x)
    values = hidden.values if isinstance(hidden, SparseRows) else hidden
    assert values is not None
    assert float((values == 0).float().mean()) == pytest.approx(0.25, abs=0.02)
    assert float(values.mean()) == pytest.approx(1.0, abs=0.03)  # the remaining features are scaled up
    assert network.eval()._hide(x) is x


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(EigenmapError, match=r"3 features.*4"):
        ResidualMLP(3)(torch.rand(2, 4))
    with pytest.raises(EigenmapError, match=r"width.*0"):
        ResidualMLP(3, width=0)
    with pytest.raises(EigenmapError, match="feature_dropout"):
        ResidualMLP(3, feature_dropout=1.0)


def spread(network: ResidualMLP, x: Tensor) -> float:
    """Spread of the outputs for these rows."""
    return float(network(x).std(0).max().detach())


def test_features_of_very_different_size_all_count() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 3, dtype=torch.float64) * torch.tensor([1e9, 1.0, 0.0])
    network = ResidualMLP(3, width=8).eval()
    network.standardise(x.mean(0), x.std(0))
    assert network.scale[2] == 0  # a constant
    assert spread(network, x * torch.tensor([0.0, 1.0, 0.0])) > 0.1


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_what_the_mean_leaves_of_large_numbers_is_not_rounded_away(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    seconds = (torch.randint(0, 100, (64, 1)) + 1_700_000_000).to(dtype)  # since 1970; float32 resolves 128 s
    network = ResidualMLP(1, width=8).eval()
    network.standardise(seconds.double().mean(0), seconds.double().std(0))
    assert len(torch.unique(network(seconds), dim=0)) == len(torch.unique(seconds)) > 40
