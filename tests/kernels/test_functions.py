from __future__ import annotations

import pytest
import torch
from torch import nn

from eigenmap.kernels.functions import Functions, Standardise, make_network
from eigenmap.networks import MLP

X = torch.randn(30, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 5 + 100


def test_standardised_under_the_measure() -> None:
    p = torch.linspace(1, 3, 30).double()
    z = Standardise(X, p)(X)
    p = p / p.sum()
    torch.testing.assert_close(p @ z, torch.zeros(3).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(p @ z.square(), torch.ones(3).double())
    assert Standardise(X)(X.float()).dtype == torch.float32


def test_what_does_not_vary_is_left_alone() -> None:
    x = torch.cat([X, torch.full((30, 1), 0.1).double()], 1)
    torch.testing.assert_close(Standardise(x).scale[3], torch.tensor(1.0).double())
    assert float(Standardise(x)(x)[:, 3].abs().max()) < 1e-12


@pytest.mark.parametrize("span_psi", [False, True])
def test_functions_are_combinations_of_the_span(span_psi: bool) -> None:
    functions = Functions(MLP(3, 4, width=8).double(), Standardise(X), span_psi)
    H = functions.span(X)
    assert H.shape == (30, 5 if span_psi else 9) and bool((H[:, -1] == 1).all())
    functions.head = torch.eye(H.shape[1]).double()[:, :2]
    torch.testing.assert_close(functions(X), H[:, :2])
    assert functions.psi(X).shape == (30, 4)


def test_the_first_layer_is_as_steep_as_asked_for() -> None:
    torch.manual_seed(0)
    plain = make_network("auto", {}, 3, 4, 5, 1.0)
    torch.manual_seed(0)
    steep = make_network("shared", {"width": 256}, 3, 4, 5, 3.0)
    weights = [network.hidden[0].weight for network in (plain, steep)]  # type: ignore[union-attr, index]
    torch.testing.assert_close(weights[1], 3 * weights[0])
    assert make_network("separate", {}, 3, 4, 5, 1.0).separate
    own = nn.Linear(3, 5)
    assert make_network(own, {}, 3, 4, 5, 3.0) is own


def test_a_hidden_layer_is_wider_than_the_functions_are_many() -> None:
    assert make_network("auto", {}, 3, 300, 450, 1.0).out_features == 600  # type: ignore[comparison-overlap]
    assert make_network("auto", {"width": 20}, 3, 300, 450, 1.0).out_features == 20  # type: ignore[comparison-overlap]
