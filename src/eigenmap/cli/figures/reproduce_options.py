"""Options shared by the items of `eigenmap reproduce`, and their output as JSON."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

from eigenmap.cli import outputs
from eigenmap.cli.options import HOW, OUTPUT, WHAT, option
from eigenmap.core.processes import is_first_process


class ScaleName(str, Enum):
    """Size of a run."""

    paper = "paper"
    small = "small"
    tiny = "tiny"


ScaleOption = Annotated[
    ScaleName,
    option(
        "--scale",
        "paper: ImageNet, ResNet-50; small: CIFAR-10, ResNet-18; tiny: seconds on generated images.",
        WHAT,
        shown=True,
    ),
]
DataOption = Annotated[
    Path | None,
    option("--data DIR", "ImageNet or CIFAR-10: train/ and val/ or test/ with class folders, or cifar10.npz.", WHAT),
]
SeedOption = Annotated[int, option("--seed N", "Random seed.", HOW, shown=True)]
RunsFolderOption = Annotated[
    Path | None,
    option(
        "--runs FOLDER",
        "Folder for training runs: items share runs with equal settings, and an interrupted run continues.",
        OUTPUT,
    ),
]
ProcessesOption = Annotated[
    int,
    option(
        "--devices N", "Processes on this machine, one per GPU; leave it out under torchrun.", HOW, min=1, shown=True
    ),
]
MachinesOption = Annotated[
    int,
    option("--nodes N", "Machines with that many processes each; leave it out under torchrun.", HOW, min=1, shown=True),
]
StemOption = Annotated[Path, option("--out -o STEM", "Output: STEM.svg and STEM.png.", OUTPUT, shown=True)]
SearchOption = Annotated[
    list[str] | None,
    option(
        "--search NAME=DIR",
        "A released set to search: coco, nus-wide, voc2012 or mirflickr; repeat it for more "
        "[dim](default: test images in training images)[/dim].",
        WHAT,
    ),
]
ModelOption = Annotated[
    Path | None,
    option("--model RUN", "A trained model [dim](default: the paper's ordered form is trained)[/dim].", WHAT),
]
DryRunOption = Annotated[
    bool,
    option(
        "--dry-run", "Check the data and measure for a minute: memory per device, steps and hours.", HOW, shown=True
    ),
]


def check_files(*files: Path | None, force: bool) -> None:
    """Refuse output files that cannot be written; only the first process of a run checks this."""
    if is_first_process():
        outputs.check_files(force, *files)


def write_item(json: Path | None, item: str, scale: ScaleName, content: dict[str, object]) -> None:
    """Write the result of an item as JSON."""
    if json is not None and is_first_process():
        outputs.write_json_output(json, {"item": item, "scale": scale.value, **content})


def percent(value: float | None) -> str:
    """Format an accuracy; None means that the run collapsed."""
    return "collapsed" if value is None else f"{100 * value:.1f}"
