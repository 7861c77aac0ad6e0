"""Precision by device: Apple's GPUs ("mps") have no float64, so what needs it is done on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

CPU = torch.device("cpu")


def has_float64(device: torch.device) -> bool:
    """Tell whether a device computes in float64.

    >>> has_float64(torch.device("cpu")), has_float64(torch.device("mps"))
    (True, False)
    """
    return device.type != "mps"


def precise(x: Tensor) -> Tensor:
    """Return x in float64, on the CPU if its own device has none."""
    return x.double() if has_float64(x.device) else x.cpu().double()


def widest(x: Tensor) -> Tensor:
    """Return x in float64, or in float32 on a device without it."""
    return x.double() if has_float64(x.device) else x.float()


def moved(x: Tensor, device: torch.device) -> Tensor:
    """Return x on a device, rounded to float32 if the device has no float64."""
    narrow = x.dtype == torch.float64 and not has_float64(device)
    return (x.float() if narrow else x).to(device)


@contextmanager
def float32_products(precision: Literal["highest", "high"]) -> Iterator[None]:
    """Compute products of float32 in true float32 ("highest") or in TensorFloat-32 where a GPU has it ("high").

    The precision belongs to the whole process; it is restored at the end.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def where_precise(network: nn.Module, device: torch.device) -> Iterator[None]:
    """Move a network from a device without float64 to the CPU for as long as the context lasts."""
    if has_float64(device):
        yield
        return
    network.to(CPU)
    try:
        yield
    finally:
        network.to(device)
