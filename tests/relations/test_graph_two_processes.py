from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.multiprocessing

from .two_processes import OBJECTIVES, WALKS, WORLD, loss_and_gradient, network, pairs, run


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[Any, list[torch.Tensor]]]:
    """What each of two real processes computed, for every case."""
    folder = tmp_path_factory.mktemp("two-processes")
    torch.multiprocessing.spawn(run, args=(str(folder),), nprocs=WORLD)
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(WORLD)]


@pytest.mark.parametrize("walk", list(WALKS))
@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_two_processes_are_one(results: list[dict[Any, list[torch.Tensor]]], walk: str, name: str) -> None:
    expected = loss_and_gradient(network(), name, pairs(walk), step=3)
    assert any(bool(gradient.any()) for gradient in expected[1:])
    for rank in range(WORLD):
        torch.testing.assert_close(results[rank][walk, name], expected, rtol=1e-10, atol=1e-10)
