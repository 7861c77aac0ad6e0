"""How close a training step comes to the limit: the network's forward and backward pass alone on resident tensors.

    python benchmarks/speed.py [--encoder resnet18] [--size 32] [--components 2048] [--batch-size 512] [--json FILE]

Images per second count each image once (two views). `share` is the full step (augmentation, network, objective,
clipping, optimizer) over the limit in the same mode. Random pixels; the speed does not depend on them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import harness
from eigenmap.networks import Network, build_encoder
from eigenmap.objectives import build
from eigenmap.relations.augmentation import TwoViews
from eigenmap.relations.images import ImagePairs
from eigenmap.training import TrainingConfig, start
from eigenmap.training.loop import Learner


def seconds(work: Callable[[int], object], device: torch.device, repeat: int, warmup: int = 5) -> float:
    """Mean seconds of `work(step)`, after some that are not counted."""
    for step in range(warmup):
        work(step)
    _finish(device)
    began = time.perf_counter()
    for step in range(warmup, warmup + repeat):
        work(step)
    _finish(device)
    return (time.perf_counter() - began) / repeat


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(given: argparse.Namespace, compiled: bool) -> dict[str, Any]:
    """Seconds of the whole step, of its parts alone, and of the limit."""
    precision = "bf16-mixed" if torch.cuda.is_available() else "32-true"
    config = TrainingConfig(
        steps=10_000, optimizer="sgd", lr=0.1, clip_norm=1.0, precision=precision, channels_last=True, compile=compiled
    )
    fabric = start(config)
    device = fabric.device
    pixels = torch.randint(256, (4 * given.batch_size, 3, given.size, given.size), dtype=torch.uint8)
    pairs = ImagePairs(pixels, TwoViews(given.views, given.size), given.batch_size, device=device)
    network = Network(build_encoder(given.encoder, image_size=given.size), given.components)
    learner = Learner(fabric, network, build(given.objective), config)
    batch = pairs.batch(0)
    psi = torch.randn(2 * given.batch_size, given.components, device=device, requires_grad=True)

    def limit(step: int) -> None:
        first, second = learner.codes(0, batch.x, batch.x_plus)
        learner.fabric.backward(first.sum() + second.sum())

    def objective(step: int) -> None:
        learner.objective(*psi.chunk(2)).backward()

    def optimizer(step: int) -> None:
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        learner.optimizer.step()

    took = {
        "limit": seconds(limit, device, given.repeat),
        "full step": seconds(lambda step: learner.step(step, pairs.batch(step)), device, given.repeat),
        "views alone": seconds(pairs.batch, device, given.repeat),
        "objective alone": seconds(objective, device, given.repeat),
        "clipping and optimizer alone": seconds(optimizer, device, given.repeat),
    }
    return {
        "compiled": compiled,
        "seconds": took,
        "images_per_second": given.batch_size / took["full step"],
        "limit_images_per_second": given.batch_size / took["limit"],
        "share": took["limit"] / took["full step"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="resnet18")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--components", type=int, default=2048)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--views", default="cifar")
    parser.add_argument("--objective", default="nested")
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--modes", nargs="+", choices=("eager", "compiled"), default=["eager", "compiled"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    settings = {name: value for name, value in vars(given).items() if name not in ("json", "modes")}
    rows = [measure(given, mode == "compiled") for mode in given.modes]
    for row in rows:
        parts = ", ".join(f"{name} {1000 * took:.1f} ms" for name, took in row["seconds"].items())
        print(f"{'compiled' if row['compiled'] else 'eager':9} {row['images_per_second']:9,.0f} images/s", end="  ")
        print(f"limit {row['limit_images_per_second']:,.0f}, share {row['share']:.2f}   ({parts})")
    if given.json:
        harness.write(given.json, {"benchmark": "speed", "settings": settings, "rows": rows, **harness.environment()})


if __name__ == "__main__":
    main()
