"""Cost estimate of an item without running it: data, memory per device, steps and hours.

Each kind of run is timed for some seconds on random pixels: one step on a device's share of the batch, or on fewer
images, scaled up. Communication between devices, reading and evaluation are not included.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import torch
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError
from eigenmap.data import ImageSet
from eigenmap.fitting.options import RunOptions
from eigenmap.fitting.problem import Problem
from eigenmap.objectives import Objective, build
from eigenmap.objectives.learning import LearningObjective, TaughtObjective
from eigenmap.recipes import Recipe
from eigenmap.reproduce.ablations import image_task
from eigenmap.reproduce.methods import Scale
from eigenmap.reproduce.sets import GENERATED, class_folders, find_sources
from eigenmap.training import measure_step, start
from eigenmap.training.config import Accelerator

if TYPE_CHECKING:
    from lightning_fabric import Fabric

IMAGENET = {"train": 1_281_167, "val": 50_000}
"""Numbers of images in ImageNet as released."""
MINUTE = 60.0
CPU_IMAGES = 8
"""Number of images in a timed step on a CPU; the result is scaled up."""
KEPT_IMAGES = 4
"""Number of images on which memory is counted."""
GIB = 2**30


class DryRow(TypedDict):
    """Steps of one run, and the time and memory it needs per device."""

    run: str
    steps: int
    images_per_device: int
    measured_images: int
    step_seconds: float
    memory_gib: float
    hours: float


@dataclass(frozen=True)
class Found:
    """Data of an item: number of images per folder."""

    counts: dict[str, int]
    complete: bool = True

    @property
    def train(self) -> int:
        """Number of training images to count steps for; if ImageNet is incomplete, that of ImageNet as released."""
        return next(iter(self.counts.values())) if self.complete else IMAGENET["train"]

    def in_words(self) -> str:
        """Describe the counts."""
        said = ", ".join(f"{name}: {count:,} images" for name, count in self.counts.items())
        released = " and ".join(f"{count:,}" for count in IMAGENET.values())
        return said if self.complete else f"{said}; incomplete: steps are those of ImageNet as released, {released}"


def find_data(scale: Scale, data: Path | None) -> Found:
    """Count the images of a scale without reading them; an error describes the expected layout."""
    if scale == "tiny":
        return Found({"generated": GENERATED * 3 // 4})
    sources = find_sources(scale, data)
    if len(sources) == 1:
        return Found({"train": 50_000, "test": 10_000})
    counts = {
        folder.name: sum(1 for each in class_folders(folder) for file in os.scandir(each) if file.is_file())
        for folder in sources
    }
    return Found(counts, scale != "paper" or counts == IMAGENET)


def dry_run(
    recipes: Sequence[Recipe],
    images: int,
    devices: int,
    device: Accelerator = "auto",
    seconds: float = MINUTE,
    say: Callable[[str], None] = lambda line: None,
) -> list[DryRow]:
    """Return one row per run; runs that differ only in length or options are measured once."""

    def kind(recipe: Recipe) -> tuple[object, ...]:
        return recipe.objective, recipe.n_components, recipe.hidden, recipe.batch_size, recipe.encoder

    measured: dict[tuple[object, ...], tuple[int, float, float]] = {}
    rows = []
    for recipe in recipes:
        if kind(recipe) not in measured:
            say(f"{recipe.objective}, {recipe.n_components:,} features, batch {recipe.batch_size:,} ...")
            time_left = seconds / len({kind(each) for each in recipes})
            measured[kind(recipe)] = measure(recipe, devices, device, time_left)
        rows.append(_row(recipe, images, devices, *measured[kind(recipe)]))
    return rows


def _row(recipe: Recipe, images: int, devices: int, measured: int, step: float, memory: float) -> DryRow:
    steps = steps_of(recipe, images)
    return DryRow(
        run=f"{recipe.objective}, k {recipe.n_components:,}, batch {recipe.batch_size:,}, {recipe.epochs:g} epochs",
        steps=steps,
        images_per_device=share_of(recipe, devices),
        measured_images=measured,
        step_seconds=step,
        memory_gib=memory,
        hours=steps * step / 3600,
    )


def steps_of(recipe: Recipe, images: int) -> int:
    """Return the number of steps of a run; a tenth of the images, at most 5,000, is held out."""
    trained = images - min(5_000, max(8, images // 10))
    return max(1, round(recipe.epochs * (trained // recipe.batch_size)))


def share_of(recipe: Recipe, devices: int) -> int:
    """Return the number of images per batch on one device."""
    return -(-recipe.batch_size // devices)


def measure(recipe: Recipe, devices: int, device: Accelerator, seconds: float) -> tuple[int, float, float]:
    """Return the number of images measured, and seconds per step and memory in GiB for a device's share."""
    share = share_of(recipe, devices)
    on_gpu = device != "cpu" and torch.cuda.is_available()
    count = share if on_gpu else min(share, CPU_IMAGES)
    while True:
        try:
            taken, memory = _measured(recipe, count, share, device, seconds)
        except torch.OutOfMemoryError:
            if count <= CPU_IMAGES:
                raise EigenmapError(f"{CPU_IMAGES} images of {recipe.encoder} do not fit into memory.") from None
            count //= 2
            continue
        return count, taken * share / count, memory


def _measured(recipe: Recipe, count: int, share: int, device: Accelerator, seconds: float) -> tuple[float, float]:
    size = recipe.read_size or recipe.image_size or 32
    rows = max(count, KEPT_IMAGES) + 24
    pixels = torch.randint(0, 256, (rows, 3, size, size), dtype=torch.uint8)
    aspects = torch.ones(rows) if recipe.whole_images else None
    images = ImageSet(pixels, [str(row) for row in range(rows)], aspects=aspects)
    options = RunOptions(device=device)
    small = recipe.but(batch_size=count, compile=False)
    config = options.config(small, 1000)
    fabric = start(config)
    problem = image_task(small, images, seed=0).problem(fabric, config)
    assert problem.relation is not None
    taken = measure_step(
        problem.network, problem.relation, problem.objective, config, fabric, steps=20, warmup=1, at_most=seconds
    )
    return taken, memory_of(problem, recipe, share, fabric) / GIB


def memory_of(problem: Problem, recipe: Recipe, share: int, fabric: Fabric) -> float:
    """Return the bytes of weights, gradients, momentum, activations of a share of the batch, and the objective.

    Activations are the tensors kept for the backward pass; allocators and kernels need some more.
    """
    assert problem.relation is not None
    network = problem.network.to(fabric.device).train()
    weights = sum(each.numel() * each.element_size() for each in network.parameters())
    copies = 4 if isinstance(problem.objective, TaughtObjective) else 3
    batch = problem.relation.batch(0)
    views = torch.cat([batch.x[:KEPT_IMAGES], batch.x_plus[:KEPT_IMAGES]])

    def forward() -> Tensor:
        with fabric.autocast():
            _, psi = network(views)
        total: Tensor = psi.float().sum()
        return total

    activations = kept_bytes(forward, network) / (len(views) / 2) * share
    return copies * weights + activations + objective_bytes(recipe, share)


def objective_bytes(recipe: Recipe, share: int) -> float:
    """Return the bytes kept by the objective for a share of the batch, without the parameters of a learning one."""
    objective = build(recipe.objective, **recipe.objective_options)
    if isinstance(objective, LearningObjective):
        return 8.0 * share * recipe.n_components * 4
    psi = torch.randn(2 * share, recipe.n_components, requires_grad=True)

    def loss() -> Tensor:
        return _loss(objective, psi, share)

    return kept_bytes(loss, objective)


def _loss(objective: Objective, psi: Tensor, share: int) -> Tensor:
    value: Tensor = objective(psi[:share], psi[share:])
    return value


def kept_bytes(forward: Callable[[], Tensor], module: nn.Module) -> float:
    """Return the bytes kept for the backward pass, each storage counted once, without parameters or sparse blocks."""
    own = {each.untyped_storage().data_ptr() for each in module.parameters()}
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.layout is torch.strided:
            kept[tensor.untyped_storage().data_ptr()] = tensor  # kept alive, so that no address is reused
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    total = sum(tensor.untyped_storage().nbytes() for place, tensor in kept.items() if place not in own)
    del result
    return float(total)
