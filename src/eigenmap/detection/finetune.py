"""Fine-tuning of a detector on any number of processes, and its detections as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from eigenmap.detection.dataset import DetectionSet, joined
from eigenmap.detection.mask_rcnn import Detections, MaskRCNN, Target
from eigenmap.detection.rle import runs_of, to_text
from eigenmap.training import start
from eigenmap.training.config import Accelerator, TrainingConfig

Found = list[dict[str, Any]]


@dataclass(frozen=True)
class Schedule:
    """Length and learning rate of fine-tuning; the defaults are the 1x schedule with the paper's rate.

    Attributes:
        steps: number of steps of `batch_size` images each; the rate drops to a tenth at each step in `drops`.
        warmup: number of steps over which the rate rises.

    """

    steps: int = 90_000
    batch_size: int = 16
    lr: float = 0.05
    drops: tuple[int, ...] = (60_000, 80_000)
    warmup: int = 100
    momentum: float = 0.9
    weight_decay: float = 1e-4

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0, as a share of `lr`.

        >>> [Schedule(drops=(3, 5), warmup=2).rate(step) for step in (0, 1, 2, 3)]
        [0.5, 1.0, 1.0, 0.1]
        """
        fallen: float = 0.1 ** sum(step >= drop for drop in self.drops)
        return fallen * min(1.0, (step + 1) / max(1, self.warmup))


def finetune(
    detector: MaskRCNN,
    train: DetectionSet,
    schedule: Schedule,
    *,
    seed: int = 0,
    device: Accelerator = "auto",
    devices: int = 1,
    precision: str = "32-true",
    say: Callable[[str], None] = lambda line: None,
) -> list[float]:
    """Train a detector in place; return the loss of every step, averaged over processes.

    Each process takes its part of every batch. BatchNorm statistics are shared between GPUs.
    """
    config = replace(TrainingConfig(steps=schedule.steps), accelerator=device, devices=devices, precision=precision)  # type: ignore[arg-type]
    fabric = start(config)
    model: nn.Module = detector
    if fabric.world_size > 1 and fabric.device.type == "cuda":
        model = nn.SyncBatchNorm.convert_sync_batchnorm(detector)  # type: ignore[no-untyped-call]
    optimizer = torch.optim.SGD(model.parameters(), schedule.lr, schedule.momentum, weight_decay=schedule.weight_decay)
    detector.generator.manual_seed(seed * 1_000_003 + fabric.global_rank)
    wrapped, optimiser = fabric.setup(model, optimizer)
    wrapped.train()
    objects = train.objects()
    useful = [number for number, rows in enumerate(objects) if rows]
    draw = np.random.default_rng(seed)
    losses: list[float] = []
    for step in range(schedule.steps):
        for group in optimiser.param_groups:
            group["lr"] = schedule.lr * schedule.rate(step)
        rows = draw.choice(useful, schedule.batch_size, replace=schedule.batch_size > len(useful))
        flips, sides = draw.random(len(rows)) < 0.5, draw.integers(max(1, len(train.sides)), size=len(rows))
        mine = range(fabric.global_rank, len(rows), fabric.world_size)
        pictures, targets = [], []
        for place in mine:
            number, side = int(rows[place]), train.sides[sides[place]] if train.sides else None
            picture, scale = train.picture(number, side, bool(flips[place]))
            size = int(picture.shape[1]), int(picture.shape[2])
            target = train.target(objects[number], number, scale, size, bool(flips[place]))
            pictures.append(picture)
            targets.append(_on(target, fabric.device))
        images, sizes = joined(pictures)
        loss = sum(wrapped(images.to(fabric.device), sizes, targets).values())
        fabric.backward(loss)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(fabric.all_reduce(loss.detach(), reduce_op="mean")))  # type: ignore[arg-type]
        if (step + 1) % max(1, schedule.steps // 10) == 0:
            say(f"  step {step + 1:,} of {schedule.steps:,}: loss {losses[-1]:.3f}")
    detector.eval()
    return losses


@torch.no_grad()
def detections(detector: MaskRCNN, test: DetectionSet, batch_size: int = 8) -> Found:
    """Return the detections in every image, in the format of COCO's results."""
    device = next(detector.parameters()).device
    categories = {place: number for number, place in test.column().items()}
    side = test.sides[-1] if test.sides else None
    found: Found = []
    detector.eval()
    for begin in range(0, len(test), batch_size):
        numbers = range(begin, min(begin + batch_size, len(test)))
        pictures, scales = zip(*(test.picture(number, side, flip=False) for number in numbers), strict=True)
        images, sizes = joined(pictures)
        for number, scale, each in zip(numbers, scales, detector.detect(images.to(device), sizes), strict=True):
            about = test.content["images"][number]
            found += _results(each, about, scale, categories)
    return found


def _results(each: Detections, about: dict[str, Any], scale: float, categories: dict[int, int]) -> Found:
    boxes = (each.boxes / scale).tolist()
    masks = each.masks
    if masks.shape[1:] != (about["height"], about["width"]):
        size = about["height"], about["width"]
        masks = torch.nn.functional.interpolate(masks[:, None].float(), size)[:, 0] > 0.5 if len(masks) else masks
    return [
        {
            "image_id": about["id"],
            "category_id": categories[int(each.classes[row])],
            "bbox": [x1, y1, x2 - x1, y2 - y1],
            "score": float(each.scores[row]),
            "segmentation": {
                "size": [about["height"], about["width"]],
                "counts": to_text(runs_of(masks[row].cpu().numpy())),
            },
        }
        for row, (x1, y1, x2, y2) in enumerate(boxes)
    ]


def _on(target: Target, device: torch.device) -> Target:
    return Target(target.boxes.to(device), target.classes.to(device), target.masks.to(device))
