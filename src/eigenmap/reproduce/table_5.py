"""Table 5: transfer of encoders to detection and instance segmentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

import torch
from torch import nn

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import make_folder, write_json
from eigenmap.core.processes import is_first_process
from eigenmap.data import ImageSet
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
    """How detection is run at a scale.

    Attributes:
        settings: of the detector.
        schedule: of fine-tuning.
        sides: lengths of the shorter side in training; empty leaves pictures as they are.
        epochs: length of pre-training.
        generated: training and test pictures, and their side, where the set is generated.
        classes: number of classes, from the first, whose images become objects of the generated set; 0 means all.

    """

    settings: Settings
    schedule: Schedule
    sides: tuple[int, ...] = ()
    epochs: int = 200
    generated: tuple[int, int, int] = (0, 0, 0)
    classes: int = 0
    precision: str = "32-true"


TRANSFERS: dict[Scale, Transfer] = {
    "paper": Transfer(Settings(), Schedule(), tuple(range(640, 801, 32)), precision="16-mixed"),
    "small": Transfer(
        SMALL, Schedule(steps=800, drops=(560, 720), lr=0.02), epochs=20, generated=(2_000, 500, 128), classes=20
    ),
    "tiny": Transfer(
        TINY, Schedule(steps=3, batch_size=2, lr=0.01, drops=(2,), warmup=2), epochs=1, generated=(12, 6, 32)
    ),
}
"""The text says the 1x schedule; the authors' command runs twice as long."""


class TransferRow(TypedDict):
    """Average precision of one initialisation, by boxes and by masks."""

    method: str
    box: Precision
    mask: Precision
    last_loss: float


def transfer_recipe(method: str, scale: Scale) -> Recipe:
    """Return the settings of pre-training: table 1's for longer, with a ResNet at every scale."""
    recipe = recipe_of(method, scale)
    if scale == "tiny":
        recipe = recipe.but(encoder="resnet18", stem="medium")
    # At the paper's scale, ten epochs of warm-up.
    warmup = 10 / TRANSFERS[scale].epochs if scale == "paper" else recipe.warmup
    return recipe.but(epochs=TRANSFERS[scale].epochs, warmup=warmup)


def detection_sets(scale: Scale, sets: Sets, folder: Path) -> tuple[DetectionSet, DetectionSet]:
    """Open COCO at the paper's scale; elsewhere make a set of the given images, the same for the same images."""
    transfer = TRANSFERS[scale]
    if scale == "paper":
        train, test = (DetectionSet.open(folder, part, sides=transfer.sides) for part in ("train2017", "val2017"))
        return train, test
    train_count, test_count, side = transfer.generated
    for part, images, count, seed in (("train", sets.train, train_count, 0), ("val", sets.test, test_count, 1)):
        if not (folder / "annotations" / f"instances_{part}.json").is_file():
            generate_detection_set(of_first_classes(images, transfer.classes), folder, part, count, side, seed)
    train, test = (DetectionSet.open(folder, part) for part in ("train", "val"))
    return train, test


def of_first_classes(images: ImageSet, count: int) -> ImageSet:
    """Return the images of the first `count` classes, labelled with these alone; 0 means all images."""
    assert images.labels is not None
    if not count:
        return images
    rows = torch.nonzero(images.labels.to_integers() < count).flatten()
    few = images.subset(rows)
    assert few.labels is not None
    return replace(few, labels=few.labels.in_classes(few.labels.names[:count]))


def initial_encoder(method: str, recipe: Recipe, runs: Runs) -> nn.Module:
    """Return the encoder that a row starts from."""
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
    """Fine-tune a detector from each encoder and score it; `out` receives the detections of each as JSON.

    `recipe` replaces the settings of pre-training.
    """
    train, test = detection_sets(scale, runs.sets, folder)
    rows = []
    for method in methods:
        runs.say(f"{TITLES[method]} ...")
        own = recipe or transfer_recipe("scl" if method in ("random", "supervised") else method, scale)
        encoder = initial_encoder(method, own, runs)
        rows.append(transferred(method, encoder, scale, runs, train, test, out))
    return rows


def detections_file(method: str, seed: int) -> str:
    """Return the name of the file of a detector's detections."""
    return f"detections-{method}-s{seed}.json"


def transferred(
    method: str,
    encoder: nn.Module,
    scale: Scale,
    runs: Runs,
    train: DetectionSet,
    test: DetectionSet,
    out: Path | None = None,
) -> TransferRow:
    """Fine-tune from one encoder, and score what the detector finds."""
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
        write_json(out / detections_file(method, runs.seed), found)
    return TransferRow(
        method=TITLES[method],
        box=average_precision(test.content, found, "bbox"),
        mask=average_precision(test.content, found, "segm"),
        last_loss=losses[-1],
    )
