"""Speed of a training step relative to its limit: the network's forward and backward pass alone on resident tensors.

    python -m benchmarks.vision.speed [--preset cifar | imagenet] [--objectives] [--accumulate 4] [--loader]

Images per second count each image once (two views). `share` is the speed of the full step (augmentation, network,
objective, clipping, optimizer) relative to the limit in the same mode. Pixels are random, which does not affect the
speed. The same run can also measure the step at a batch of 2,048 by exact accumulation (`--accumulate` chunks), the
step fed by views made on the CPU in the usual way (`--loader`), and the objectives alone, compared with a direct
implementation of the paper's (`--objectives`).
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from benchmarks.common import harness
from benchmarks.common.learners import stepping
from benchmarks.common.timing import mean_seconds, wait
from eigenmap.core.batch import Batch
from eigenmap.fitting.images import ImageTask
from eigenmap.fitting.options import RunOptions
from eigenmap.model import ImageInput
from eigenmap.objectives import build
from eigenmap.objectives.neuralef import PAPER_STRENGTH
from eigenmap.recipes import Recipe
from eigenmap.relations.images import ImagePairs


@dataclass(frozen=True)
class Setting:
    """Training setup; `batch_size` 0 means the largest of `BATCHES` that fits."""

    encoder: str = "resnet18"
    size: int = 32
    components: int = 2048
    batch_size: int = 512
    views: str = "cifar"
    objective: str = "scl"
    repeat: int = 30


PRESETS = {
    "cifar": Setting(),
    "imagenet": Setting("resnet50", 224, 8192, 0, "barlow_twins", repeat=10),
}
BATCHES = (2048, 1024, 512, 256, 128, 64)
LARGE_BATCH = 2048
WARM_UP = 5
"""Number of uncounted steps."""


def seconds(work: Callable[[int], object], device: torch.device, repeat: int, warmup: int = WARM_UP) -> float:
    """Return the mean seconds of `work(step)`, after some uncounted steps."""
    return mean_seconds(work, device, repeat, warmup)


class Bench:
    """A learner and its batches, to be timed."""

    def __init__(self, setting: Setting, *, compiled: bool = False, chunks: int = 1) -> None:
        recipe = Recipe(
            "speed",
            encoder=setting.encoder,
            image_size=setting.size,
            n_components=setting.components,
            objective=setting.objective,
            views=setting.views,
            batch_size=setting.batch_size,
            optimizer="sgd",
            lr=0.1,
            clip_norm=1.0,
            precision="bf16-mixed" if torch.cuda.is_available() else "32-true",
            channels_last=True,
            compile=compiled,
            accumulate=chunks,
        )
        self.pixels = torch.randint(256, (2 * setting.batch_size, 3, setting.size, setting.size), dtype=torch.uint8)
        rows = torch.arange(len(self.pixels))
        # Held-out images are required but not used: only steps are timed.
        task = ImageTask(recipe, self.pixels, rows, rows[:2], ImageInput(setting.size, 3))
        made = stepping(task, RunOptions(steps=10_000))
        assert isinstance(made.problem.relation, ImagePairs)
        self.setting, self.chunks, self.pairs = setting, chunks, made.problem.relation
        self.learner, self.device = made.learner, made.learner.fabric.device

    def limit(self) -> Callable[[int], None]:
        """Return the forward and backward pass of one chunk alone, on existing views."""
        batch = self.pairs.batch(0, slice(0, self.setting.batch_size // self.chunks))

        def work(step: int) -> None:
            self.learner.optimizer.zero_grad()
            first, second = self.learner.codes(0, batch.x, batch.x_plus)
            self.learner.fabric.backward(first.sum() + second.sum())

        return work

    def step(self, step: int) -> None:
        self.learner.step(step, self.pairs.batch(step))

    def parts(self) -> dict[str, Callable[[int], object]]:
        """Return the parts of a step besides the network."""
        rows = 2 * self.setting.batch_size
        psi = torch.randn(rows, self.setting.components, device=self.device, requires_grad=True)

        def optimizer(step: int) -> None:
            torch.nn.utils.clip_grad_norm_(self.learner.network.parameters(), 1.0)
            self.learner.optimizer.step()

        return {
            "views alone": self.pairs.batch,
            "objective alone": lambda step: self.learner.objective(*psi.chunk(2)).backward(),
            "clipping and optimizer alone": optimizer,
        }


def measure(setting: Setting, *, compiled: bool) -> dict[str, Any]:
    """Seconds of the whole step, of its parts alone, and of the limit."""
    bench = Bench(setting, compiled=compiled)
    # Views are compiled once for each order of the colour changes, before they are timed.
    for step in range(WARM_UP + setting.repeat + 1):
        bench.pairs.batch(step)
    work: dict[str, Callable[[int], object]] = {"limit": bench.limit(), "full step": bench.step, **bench.parts()}
    took = {name: seconds(part, bench.device, setting.repeat) for name, part in work.items()}
    return {"compiled": compiled, "seconds": took} | _speeds(setting.batch_size, took["full step"], took["limit"])


def profile(setting: Setting, *, compiled: bool, steps: int = 10) -> str:
    """Profile a step: time by kernel, and the share of time that the device is busy."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    bench = Bench(setting, compiled=compiled)
    took = seconds(bench.step, bench.device, 3 * steps, warmup=20)
    alone = seconds(bench.limit(), bench.device, 3 * steps)
    launching = launch_seconds(bench, steps)
    with record(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        seconds(bench.step, bench.device, steps, warmup=0)
    with record(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as network:
        seconds(bench.limit(), bench.device, steps, warmup=0)
    kernels, of_network = (_kernels(each, steps) for each in (recorded, network))
    beside = {name: (spent - of_network.get(name, (0.0, 0))[0], n) for name, (spent, n) in kernels.items()}
    slowest = sorted(beside.items(), key=lambda entry: -entry[1][0])[:25]
    busy, busy_alone = (sum(spent for spent, _ in each.values()) for each in (kernels, of_network))
    return "\n".join(
        [
            f"{1e3 * took:.2f} ms per step, {1e3 * launching:.2f} ms until the host has launched it, "
            f"{busy / 1e3:.2f} ms of kernels; the network alone {1e3 * alone:.2f} ms, "
            f"{busy_alone / 1e3:.2f} ms of kernels",
            "beside the network:",
        ]
        + [f"{spent:8.0f} us {count:6.1f} x {name[:90]}" for name, (spent, count) in slowest]
    )


def launch_seconds(bench: Bench, steps: int) -> float:
    """Return the host's seconds per step, while the device has nothing to wait for."""
    spent = 0.0
    for step in range(steps):
        wait(bench.device)
        began = time.perf_counter()
        bench.step(step)
        spent += time.perf_counter() - began
    return spent / steps


def _kernels(recorded: Any, steps: int) -> dict[str, tuple[float, float]]:
    """Return microseconds and calls per step of every kernel on the device, without ranges that group several."""
    return {
        event.key: (event.self_device_time_total / steps, event.count / steps)
        for event in recorded.key_averages()
        if event.self_device_time_total > 0 and event.device_type.name == "CUDA" and not event.key.startswith("## ")
    }


def measure_accumulated(setting: Setting, chunks: int) -> dict[str, Any]:
    """Measure the step at a large batch in chunks; the limit is that of one chunk, times their number."""
    setting = replace(setting, batch_size=LARGE_BATCH, repeat=max(3, setting.repeat // 3))
    bench = Bench(setting, chunks=chunks)
    limit = chunks * seconds(bench.limit(), bench.device, setting.repeat)
    took = seconds(bench.step, bench.device, setting.repeat, warmup=2)
    peak = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None
    about = {"batch_size": setting.batch_size, "chunks": chunks, "peak_gpu_gib": peak}
    return about | _speeds(setting.batch_size, took, limit)


def _speeds(images: int, step: float, limit: float) -> dict[str, float]:
    return {
        "images_per_second": images / step,
        "limit_images_per_second": images / limit,
        "share": limit / step,
    }


def largest_batch(setting: Setting) -> int:
    """The largest of `BATCHES` of which a step fits into the memory of the device."""
    for batch_size in BATCHES:
        if fits(replace(setting, batch_size=batch_size)):
            return batch_size
    raise SystemExit(f"Not even a batch of {BATCHES[-1]} fits.")


def fits(setting: Setting) -> bool:
    """Tell whether a step fits into memory."""
    try:
        Bench(setting).step(0)
    except torch.cuda.OutOfMemoryError:
        return False
    finally:
        release()
    return True


def release() -> None:
    """Release unused memory; learners contain reference cycles, so it would still be taken for the next one."""
    gc.collect()
    torch.cuda.empty_cache()


class CpuViews(Dataset[tuple[Tensor, Tensor]]):
    """Two random views of each image, made one image at a time on the CPU."""

    def __init__(self, pixels: Tensor, transform: Callable[[Any], Tensor]) -> None:
        self.pixels, self.transform = pixels, transform

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        from PIL import Image

        image = Image.fromarray(self.pixels[row].permute(1, 2, 0).numpy())
        return self.transform(image), self.transform(image)


def usual_transform(size: int) -> Callable[[Any], Tensor] | None:
    """Return the views of SimCLR by torchvision, as in most projects; None if it is not installed."""
    try:
        from torchvision import transforms as T
    except ImportError:
        return None
    blur = [T.RandomApply([T.GaussianBlur(size // 20 * 2 + 1)], p=0.5)] if size > 32 else []
    transform: Callable[[Any], Tensor] = T.Compose(
        [
            T.RandomResizedCrop(size, scale=(0.2, 1.0)),
            T.RandomHorizontalFlip(),
            T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
            T.RandomGrayscale(0.2),
            *blur,
            T.ToTensor(),
            T.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
        ]
    )
    return transform


def measure_loader(
    setting: Setting, transform: Callable[[Any], Tensor] | None, workers: int, batches: int = 20
) -> dict[str, Any]:
    """Time a step fed by a DataLoader that makes the views on the CPU."""
    if transform is None:
        return {"not_run": "torchvision not installed"}
    bench = Bench(setting)
    loader = DataLoader(
        CpuViews(bench.pixels, transform),
        setting.batch_size,
        shuffle=True,
        num_workers=workers,
        pin_memory=bench.device.type == "cuda",
        drop_last=True,
        persistent_workers=workers > 0,
    )

    def endless() -> Iterator[Batch]:
        while True:
            for x, x_plus in loader:
                yield Batch(x.to(bench.device, non_blocking=True), x_plus.to(bench.device, non_blocking=True))

    batch = endless()
    took = seconds(lambda step: bench.learner.step(step, next(batch)), bench.device, batches, warmup=2)
    return {"workers": workers, "images_per_second": setting.batch_size / took}


def two_products(psi: Tensor, psi_plus: Tensor) -> Tensor:
    r"""Compute the paper's objective as it is written, with both k x k products at once.

        loss = 1/k * { - sum_j R_jj + alpha/2 * sum_{i<j} (R_ij^2 + R'_ij^2) }

    with R = E[sg(psi) psi_plus^T] and R' the same with the views exchanged.
    """
    n, k = psi.shape
    scale = torch.cat([psi, psi_plus]).square().mean(0).rsqrt()
    a, b = psi * scale, psi_plus * scale
    R, R_exchanged = a.detach().T @ b / n, b.detach().T @ a / n
    penalty = R.triu(1).square().sum() + R_exchanged.triu(1).square().sum()
    return (PAPER_STRENGTH / k / 2 * penalty - (a * b).mean(0).sum()) / k


def measure_objectives(batch_size: int, widths: tuple[int, ...], repeat: int) -> list[dict[str, Any]]:
    """Milliseconds and peak memory (beyond the codes) of value and gradient, in float32 as in training."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = []
    for k in widths:
        psi, psi_plus = (torch.randn(batch_size, k, device=device, requires_grad=True) for _ in range(2))
        objectives: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"the paper's, written out": two_products}
        objectives |= {f"{name} (ours)": build(name) for name in ("neuralef", "neuralef-gram", "scl")}
        for name, objective in objectives.items():

            def work(step: int, objective: Callable[[Tensor, Tensor], Tensor] = objective) -> None:
                torch.autograd.grad(objective(psi, psi_plus), (psi, psi_plus))  # noqa: B023

            took = seconds(work, device, repeat, warmup=2)
            rows.append(
                {"objective": name, "k": k, "batch_size": batch_size, "ms": 1000 * took, "peak_mb": _peak(work, device)}
            )
    return rows


def _peak(work: Callable[[int], object], device: torch.device) -> float | None:
    if device.type != "cuda":
        return None
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    work(0)
    return (torch.cuda.max_memory_allocated(device) - before) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=PRESETS, default="cifar")
    for name, value in asdict(Setting()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), help="instead of the preset's")
    parser.add_argument("--modes", nargs="*", choices=("eager", "compiled"), default=["eager", "compiled"])
    parser.add_argument("--accumulate", type=int, metavar="N", help=f"also a batch of {LARGE_BATCH:,} in N chunks")
    parser.add_argument("--loader", action="store_true", help="also views made on the CPU")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes of that loader")
    parser.add_argument("--objectives", action="store_true", help="also the objectives alone")
    parser.add_argument("--widths", type=int, nargs="+", default=[2048, 4096, 8192], help="k of the objectives")
    parser.add_argument("--profile", action="store_true", help="only print the device's time by kernel")
    parser.add_argument("--json", type=Path, help="result file")
    given = parser.parse_args()
    asked = {name: getattr(given, name) for name in asdict(Setting()) if getattr(given, name) is not None}
    setting = replace(PRESETS[given.preset], **asked)
    if setting.batch_size == 0:
        setting = replace(setting, batch_size=largest_batch(setting))
    if given.profile:
        print("\n\n".join(f"{mode}: {profile(setting, compiled=mode == 'compiled')}" for mode in given.modes))
        return
    # Compiled steps come last: the memory of their CUDA graphs is not given back.
    measurements: dict[str, Callable[[], Any]] = {}
    if given.objectives:
        measurements["objectives"] = lambda: measure_objectives(LARGE_BATCH, tuple(given.widths), setting.repeat)
    if given.accumulate:
        measurements["accumulated"] = lambda: measure_accumulated(setting, given.accumulate)
    if given.loader:
        measurements["loader"] = lambda: measure_loader(setting, usual_transform(setting.size), given.workers)
    modes = sorted(given.modes, key=("eager", "compiled").index)
    measurements["rows"] = lambda: [measure(setting, compiled=mode == "compiled") for mode in modes]
    result: dict[str, Any] = {"benchmark": "speed", "settings": asdict(setting), "rows": []} | harness.environment()
    for name, measurement in measurements.items():
        result[name] = measurement()
        release()
        if given.json:
            harness.write(given.json, result)
    from benchmarks.vision.speed_tables import speed

    print("\n\n".join(speed({"speed": result})))


if __name__ == "__main__":
    main()
