"""Table 5: transfer of encoders to detection and instance segmentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import torch
from torch import nn

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import make_folder, write_json
from eigenmap.core.processes import is_first_process
from eigenmap.detection.average_precision import Precision, average_precision
from eigenmap.detection.dataset import DetectionSet
from eigenmap.detection.finetune import Schedule, detections, finetune
from eigenmap.detection.generated import generate_detection_set
from eigenmap.detection.mask_rcnn import MaskRCNN
from eigenmap.detection.settings import SMALL, TINY, Settings
from eigenmap.networks import ResNet, build_encoder
from eigenmap.recipes import Recipe
from eigenmap.reproduce.methods import METHODS, Scale, recipe_of
from eigenmap.reproduce.runs import Runs
from eigenmap.reproduce.sets import Sets
from eigenmap.reproduce.supervised import supervised_encoder

TITLES = {
    "random": "random weights",
    "supervised": "supervised",
    "barlow-twins": METHODS["barlow-twins"].title,
    "unordered": METHODS["unordered"].title,
    "scl": "SCL, our default",
}
"""Initial weights of the rows."""


@dataclass(frozen=True)
class Transfer:
    """Settings of detection at one scale.

    Attributes:
        settings: settings of the detector.
        schedule: schedule of fine-tuning.
        sides: lengths of the shorter side in training; empty for no resizing.
        epochs: epochs of pre-training.
        generated: numbers of training and test pictures of a generated set, and their side.

    """

    settings: Settings
    schedule: Schedule
    sides: tuple[int, ...] = ()
    epochs: int = 200
    generated: tuple[int, int, int] = (0, 0, 0)
    precision: str = "32-true"


TRANSFERS: dict[Scale, Transfer] = {
    "paper": Transfer(Settings(), Schedule(), tuple(range(640, 801, 32)), precision="16-mixed"),
    "small": Transfer(
        SMALL, Schedule(steps=2_000, drops=(1_400, 1_800), lr=0.02), epochs=50, generated=(4_000, 1_000, 128)
    ),
    "tiny": Transfer(
        TINY, Schedule(steps=3, batch_size=2, lr=0.01, drops=(2,), warmup=2), epochs=1, generated=(12, 6, 32)
    ),
}
"""The paper's text says the 1x schedule; the authors' command takes twice as many steps."""


class TransferRow(TypedDict):
    """Average precision of one initialisation, by boxes and by masks."""

    method: str
    box: Precision
    mask: Precision
    last_loss: float


def transfer_recipe(method: str, scale: Scale) -> Recipe:
    """Return the recipe of pre-training: that of table 1 with more epochs, and a ResNet at every scale."""
    recipe = recipe_of(method, scale)
    if scale == "tiny":
        recipe = recipe.but(encoder="resnet18", stem="medium")
    # At the paper's scale, ten epochs of warm-up.
    warmup = 10 / TRANSFERS[scale].epochs if scale == "paper" else recipe.warmup
    return recipe.but(epochs=TRANSFERS[scale].epochs, warmup=warmup)


def detection_sets(scale: Scale, sets: Sets, folder: Path) -> tuple[DetectionSet, DetectionSet]:
    """Open COCO at the paper's scale; at other scales generate a set from the given images, deterministically."""
    transfer = TRANSFERS[scale]
    if scale == "paper":
        train, test = (DetectionSet.open(folder, part, sides=transfer.sides) for part in ("train2017", "val2017"))
        return train, test
    train_count, test_count, side = transfer.generated
    for part, images, count, seed in (("train", sets.train, train_count, 0), ("val", sets.test, test_count, 1)):
        if not (folder / "annotations" / f"instances_{part}.json").is_file():
            generate_detection_set(images, folder, part, count, side, seed)
    train, test = (DetectionSet.open(folder, part) for part in ("train", "val"))
    return train, test


def initial_encoder(method: str, recipe: Recipe, runs: Runs) -> nn.Module:
    """Return the encoder from which a row is fine-tuned."""
    if method == "supervised":
        return supervised_encoder(recipe, runs.sets.train, runs.seed, runs.device)
    if method == "random":
        torch.manual_seed(runs.seed)
        return build_encoder(recipe.encoder, runs.sets.train.channels, runs.sets.train.size, recipe.stem)
    return runs.encoder(recipe)


def table_5(
    scale: Scale,
    runs: Runs,
    folder: Path,
    methods: Sequence[str] = tuple(TITLES),
    out: Path | None = None,
    recipe: Recipe | None = None,
) -> list[TransferRow]:
    """Fine-tune a detector from each encoder and score it; detections are written to `out` as JSON.

    `recipe` replaces the recipe of pre-training.
    """
    train, test = detection_sets(scale, runs.sets, folder)
    rows = []
    for method in methods:
        runs.say(f"{TITLES[method]} ...")
        own = recipe or transfer_recipe("scl" if method in ("random", "supervised") else method, scale)
        encoder = initial_encoder(method, own, runs)
        rows.append(transferred(method, encoder, scale, runs, train, test, out))
    return rows


def transferred(
    method: str,
    encoder: nn.Module,
    scale: Scale,
    runs: Runs,
    train: DetectionSet,
    test: DetectionSet,
    out: Path | None = None,
) -> TransferRow:
    """Fine-tune from one encoder, and score the detections."""
    if not isinstance(encoder, ResNet):
        raise EigenmapError(f"Detection needs a ResNet, not {type(encoder).__name__}.")
    transfer = TRANSFERS[scale]
    torch.manual_seed(runs.seed)
    detector = MaskRCNN(encoder, train.n_classes, transfer.settings)
    losses = finetune(
        detector,
        train,
        transfer.schedule,
        seed=runs.seed,
        device=runs.device,
        devices=runs.devices,
        precision=transfer.precision if runs.device != "cpu" else "32-true",
        say=runs.say,
    )
    found = detections(detector, test)
    if out is not None and is_first_process():
        make_folder(out)
        write_json(out / f"detections-{method}-s{runs.seed}.json", found)
    return TransferRow(
        method=TITLES[method],
        box=average_precision(test.content, found, "bbox"),
        mask=average_precision(test.content, found, "segm"),
        last_loss=losses[-1],
    )
