from __future__ import annotations

import pytest
import torch
from torch import nn

from eigenmap.core.devices import has_float64, moved, precise, where_precise, widest
from tests.pretend_mps import MPS, PretendMps


def test_the_cpu_keeps_float64() -> None:
    x = torch.tensor([1.0, 2.0])
    assert has_float64(x.device) and not has_float64(MPS)
    assert precise(x).dtype == widest(x).dtype == torch.float64
    assert moved(x.double(), torch.device("cpu")).dtype == torch.float64


def test_without_float64_precision_is_on_the_cpu() -> None:
    with PretendMps() as device:
        x = torch.tensor([1.0, 2.0]).to(MPS)
        assert x.device == MPS and device.holds(x)
        assert precise(x).device.type == "cpu" and precise(x).dtype == torch.float64
        assert widest(x.long()).dtype == torch.float32 and widest(x).device == MPS
        assert moved(torch.ones(3, dtype=torch.float64), MPS).dtype == torch.float32
        network = nn.Linear(2, 1).to(MPS)
        with where_precise(network, MPS):
            assert network.weight.device.type == "cpu"
        assert network.weight.device == MPS


def test_the_stand_in_refuses_what_a_mac_refuses() -> None:
    with PretendMps():
        x = torch.ones(3).to("mps")
        for wrong in (
            lambda: x.double(),
            lambda: torch.zeros(3, dtype=torch.float64, device="mps"),
            lambda: torch.ones(3, dtype=torch.float64).to("mps"),
            lambda: x.to("cpu", torch.float64),
            lambda: x.numpy(),
        ):
            with pytest.raises(TypeError):
                wrong()
        with pytest.raises(RuntimeError, match="one device"):
            x + torch.ones(3)
        assert (x + 1).device == MPS and (x + 1).cpu().device.type == "cpu"
        weights = torch.ones(3, requires_grad=True)
        weights.data = weights.data.to("mps")
        (weights * x).sum().backward()
        assert weights.grad is not None and weights.grad.device == MPS
