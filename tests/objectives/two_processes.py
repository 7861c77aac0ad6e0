"""Program of the two processes in `test_two_processes`: every objective on a small network under DDP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from eigenmap.objectives import OBJECTIVES, build

from .reference import NO_GRAM

WORLD, B, FEATURES, K = 2, 5, 4, 6
VARIANTS = {
    **{name: {} for name in OBJECTIVES},
    "neuralef-gram unbiased": {"unbiased": True},
    "nested unbiased": {"unbiased": True},
    "nested clipped": {"rows": "clipped"},
    "ritz-trace uncentred": {"centre": False},
    # With more features than the rank of the network, a small tau would amplify float32 rounding.
    "ritz-logdet": {"tau": 2.0},
    "ritz-logdet uncentred": {"tau": 2.0, "centre": False},
}


def cases() -> Iterator[tuple[str, str, torch.dtype]]:
    """Every objective with every kernel it takes in both precisions."""
    for name in VARIANTS:
        for kernel in ("pairs", "weights") if name in NO_GRAM else ("pairs", "weights", "block"):
            for dtype in (torch.float64, torch.float32):
                yield name, kernel, dtype


def objective(name: str) -> nn.Module:
    """The objective of a variant."""
    return build(name.split()[0], **VARIANTS[name])


def network(dtype: torch.dtype) -> nn.Module:
    """The same small network in every process."""
    torch.manual_seed(0)
    return nn.Linear(FEATURES, K).to(dtype)


def batch(kernel: str, rank: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor | None]:
    """Batch of one process; blocks are rectangular."""
    generator = torch.Generator().manual_seed(10 + rank)
    columns = B + 2 if kernel == "block" else B
    x = torch.randn(B, FEATURES, generator=generator, dtype=torch.float64)
    x_plus = torch.randn(columns, FEATURES, generator=generator, dtype=torch.float64)
    x_plus[:B] += 2 * x
    shapes = {"pairs": None, "weights": (B,), "block": (B, columns)}
    shape = shapes[kernel]
    K = None if shape is None else torch.rand(shape, generator=generator, dtype=torch.float64).to(dtype)
    return x.to(dtype), x_plus.to(dtype), K


def joined_batch(kernel: str, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor | None]:
    """Joined batch of all processes; blocks are averaged, so their block-diagonal matrix is doubled."""
    xs, x_pluses, Ks = zip(*(batch(kernel, rank, dtype) for rank in range(WORLD)), strict=True)
    join = {"pairs": lambda *_: None, "weights": lambda *k: torch.cat(k)}
    K = WORLD * torch.block_diag(*Ks) if kernel == "block" else join[kernel](*Ks)
    return torch.cat(xs), torch.cat(x_pluses), K


def loss_and_gradient(model: nn.Module, name: str, x: Tensor, x_plus: Tensor, K: Tensor | None) -> list[Tensor]:
    """One step: both views in one forward pass, as training does."""
    model.zero_grad()
    psi, psi_plus = model(torch.cat([x, x_plus])).split([len(x), len(x_plus)])
    loss = objective(name)(psi, psi_plus, K)
    loss.backward()
    return [loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())]


def run(rank: int, folder: str) -> None:
    """Run all cases as process `rank` and write the results."""
    torch.set_num_threads(1)
    store = Path(folder, "store").as_uri()
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=WORLD)
    precisions = (torch.float64, torch.float32)
    models = {dtype: nn.parallel.DistributedDataParallel(network(dtype)) for dtype in precisions}
    results = {
        (name, kernel, dtype): loss_and_gradient(models[dtype], name, *batch(kernel, rank, dtype))
        for name, kernel, dtype in cases()
    }
    torch.save(results, Path(folder, f"{rank}.pt"))
    dist.destroy_process_group()
