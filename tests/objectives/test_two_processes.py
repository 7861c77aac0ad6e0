from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.multiprocessing

from .two_processes import WORLD, cases, joined_batch, loss_and_gradient, network, run


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[Any, list[torch.Tensor]]]:
    """Results of two real processes for every case."""
    folder = tmp_path_factory.mktemp("two-processes")
    torch.multiprocessing.spawn(run, args=(str(folder),), nprocs=WORLD)
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(WORLD)]


@pytest.mark.parametrize(("name", "kernel", "dtype"), list(cases()))
def test_two_processes_are_one_with_the_joined_batch(
    results: list[dict[Any, list[torch.Tensor]]], name: str, kernel: str, dtype: torch.dtype
) -> None:
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    expected = loss_and_gradient(network(dtype), name, *joined_batch(kernel, dtype))
    for rank in range(WORLD):
        found = results[rank][name, kernel, dtype]
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
