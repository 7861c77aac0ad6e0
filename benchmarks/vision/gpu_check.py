"""Comparison of compiled and plain code on a GPU: views, networks, objectives, whole steps.

    python -m benchmarks.vision.gpu_check [--sizes 32 96] [--views cifar ...] [--precisions 32-true bf16-mixed] [--all]
    python -m benchmarks.vision.gpu_check --objectives

Prints one line per case and ends with 1 if any is wrong. It complements the tests, which run without a GPU. Nearly all
of its time is compiling, so by default it checks the settings of most runs (32 pixels, bf16, views with and without
blur); `--all` checks everything.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import chain, product
from typing import get_args

import torch

from benchmarks.common.learners import stepping
from eigenmap.augment.policies import POLICIES
from eigenmap.augment.views import TwoViews
from eigenmap.fitting.images import ImageTask
from eigenmap.fitting.options import RunOptions
from eigenmap.model import ImageInput
from eigenmap.objectives import OBJECTIVES, build
from eigenmap.recipes import Recipe
from eigenmap.relations.images import ImagePairs
from eigenmap.training import TrainingConfig, start
from eigenmap.training.config import TrainingPrecision
from eigenmap.training.loop import Learner

Case = tuple[str, float, float]
"""Name of a comparison, its difference, and the allowed difference."""

SIZES, VIEWS, PRECISIONS = (32, 96), tuple(POLICIES), get_args(TrainingPrecision)
USUAL_SIZES, USUAL_VIEWS, USUAL_PRECISIONS = (32,), ("cifar", "barlow_twins"), ("bf16-mixed",)


def photos(count: int, size: int) -> torch.Tensor:
    """Smooth random pictures."""
    coarse = torch.rand(count, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    smooth = torch.nn.functional.interpolate(coarse, size=(size, size), mode="bilinear")
    return (255 * smooth).to(torch.uint8)


def check_views(size: int, names: Sequence[str], device: torch.device) -> Iterator[Case]:
    images = photos(64, size).to(device)
    for name in names:
        views = TwoViews(name, size)
        compiled, worst = views.compiled(), 0.0
        for seed in range(6):
            first, second = (made(images, torch.Generator().manual_seed(seed)) for made in (views, compiled))
            worst = max(worst, *(_apart(a, b) for a, b in zip(first, second, strict=True)))
        yield f"views {name}, {size} pixels", worst, 1e-3


def check_ahead(size: int, device: torch.device) -> Iterator[Case]:
    """Batches made one step early on a second stream, while a large product keeps the first one busy."""
    pairs = ImagePairs(photos(512, size), TwoViews("cifar", size), 128, 0, device, compile=True)
    busy = torch.randn(8192, 8192, device=device)
    worst = 0.0
    for step in (*range(12), 3, 4, 20, 21):
        early = pairs.batch(step)
        busy = (busy @ busy).clamp_(-1, 1)
        direct = pairs.batch(step, slice(0, 128))
        worst = max(worst, _apart(early.x, direct.x), _apart(early.x_plus, direct.x_plus))
    yield f"batches one step early, {size} pixels", worst, 0.0


def check_steps(
    size: int, precisions: Sequence[TrainingPrecision], device: torch.device, steps: int = 30
) -> Iterator[Case]:
    """Compare the losses of a short training, compiled and plain; they may drift apart slowly, but never to nan.

    Without small crops, and with two of every image.
    """
    stem = "imagenet" if size > 64 else "small"
    losses = {}
    pixels, rows = photos(512, size), torch.arange(512)
    recipe = Recipe(
        "check",
        encoder="resnet18",
        stem=stem,
        image_size=size,
        n_components=256,
        objective="scl",
        views="barlow_twins",
        batch_size=128,
        optimizer="sgd",
        lr=0.1,
        clip_norm=1.0,
        warmup=1 / 3,
        channels_last=True,
    )
    for precision, crops in product(precisions, (0, 2)):
        for compiled in (False, True):
            chosen = recipe.but(precision=precision, compile=compiled, crops=crops)
            task = ImageTask(chosen, pixels, rows, rows[:2], ImageInput(size, 3))
            made = stepping(task, RunOptions(steps=steps, device=device.type))
            losses[compiled] = torch.tensor([made.step(step) for step in range(steps)])
        words = f"{stem} stem, {size} pixels, {precision}{f', {crops} small crops' if crops else ''}"
        yield f"first loss, {words}", _apart(losses[False][:1], losses[True][:1]), 0.05
        yield f"mean loss of {steps} steps, {words}", _apart(losses[False].mean(), losses[True].mean()), 0.5


def check_objectives(device: torch.device, names: Sequence[str] = tuple(OBJECTIVES), k: int = 2048) -> Iterator[Case]:
    """Compare the gradient of every objective in training with the plain one, relative to its largest entry."""
    config = TrainingConfig(steps=1, compile=True)
    shared = torch.randn(512, 8, device=device) @ torch.randn(8, k, device=device)
    codes = [(shared + 0.3 * torch.randn_like(shared)).requires_grad_() for _ in range(2)]
    for name in names:
        plain = build(name)
        learner = Learner(start(config), torch.nn.Linear(1, 1), build(name), config)
        wanted, found = (
            torch.cat(torch.autograd.grad(objective(*codes), codes)) for objective in (plain, learner.objective)
        )
        yield f"gradient of {name}, k = {k:,}", _apart(wanted, found) / float(wanted.abs().max()), 0.01


def _apart(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the largest difference; infinite if either contains nan."""
    both = torch.stack([a, b]).double()
    return float((a - b).abs().max()) if bool(both.isfinite().all()) else float("inf")


def cases(
    sizes: Sequence[int], views: Sequence[str], precisions: Sequence[TrainingPrecision], device: torch.device
) -> Iterator[Case]:
    """All comparisons that depend on the size, one after another."""
    for size in sizes:
        yield from check_views(size, views, device)
        yield from check_ahead(size, device)
        yield from check_steps(size, precisions, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=USUAL_SIZES, help="sides of the pictures in pixels")
    parser.add_argument("--views", nargs="+", choices=VIEWS, default=USUAL_VIEWS)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=USUAL_PRECISIONS)
    parser.add_argument("--objectives", action="store_true", help="only the gradients of objectives")
    parser.add_argument("--all", action="store_true", help="all sizes, views and precisions")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("This machine has no GPU.")
    chosen = (SIZES, VIEWS, PRECISIONS) if given.all else (given.sizes, given.views, given.precisions)
    device = torch.device("cuda")
    wrong = 0
    for name, apart, allowed in chain(check_objectives(device), () if given.objectives else cases(*chosen, device)):
        wrong += apart > allowed
        print(f"{'ok   ' if apart <= allowed else 'WRONG'} {name}: {apart:.2g} apart", flush=True)
        # Reset before every case: one function compiled for all of them would exceed torch's limit of recompilations.
        torch._dynamo.reset()
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
