"""Options and settings shared by all kinds of `eigenmap fit`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from eigenmap.cli.options import HOW, OUTPUT, Device, check_device, option
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import parse_json

if TYPE_CHECKING:
    from eigenmap.model import Eigenmap
    from eigenmap.recipes.recipe import BaseRecipe

NETWORK, TRAINING, LENGTH = "Network", "Training", "Length of training"
"""Headings in the help."""


class FitDevice(str, Enum):
    """Device to train on."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"
    mps = "mps"


RunOption = Annotated[Path, option("--out -o RUN", "Folder for the model, its checkpoints and metrics.jsonl.", OUTPUT)]
StepsOption = Annotated[int | None, option("--steps N", "Steps of one batch each.", LENGTH)]
MinutesOption = Annotated[
    float | None,
    option(
        "--minutes X", "Time for all of it, with as many steps as fit; with --steps, until the first is over.", LENGTH
    ),
]
ComponentsOption = Annotated[
    int | None,
    option("--components -k N", "Features to learn: the longest code [dim](default: the recipe's)[/dim].", NETWORK),
]
ObjectiveOption = Annotated[
    str | None, option("--objective NAME", "Training objective, see `eigenmap objectives`.", TRAINING)
]
RateOption = Annotated[float | None, option("--lr X", "Peak learning rate.", TRAINING)]
TrainingSeedOption = Annotated[
    int,
    option(
        "--seed N", "Random seed; on a CPU, runs with the same number of threads are identical.", TRAINING, shown=True
    ),
]
ThreadsOption = Annotated[
    int | None,
    option(
        "--threads N",
        "CPU threads [dim](default: OMP_NUM_THREADS, or the fastest number at the start)[/dim].",
        TRAINING,
        min=1,
    ),
]
ResumeOption = Annotated[
    bool,
    option(
        "--resume",
        "Continue from the last checkpoint in RUN, also with a longer training than before.",
        OUTPUT,
        shown=True,
    ),
]
OverwriteOption = Annotated[bool, option("--force -f", "Replace an existing run.", OUTPUT, shown=True)]
DevicesOption = Annotated[
    int,
    option(
        "--devices N",
        "Processes on this machine, one per GPU; leave it out under torchrun.",
        TRAINING,
        shown=True,
        min=1,
    ),
]
NodesOption = Annotated[
    int,
    option(
        "--nodes N",
        "Machines with that many processes each; MASTER_ADDR and NODE_RANK identify this one. Leave it out under "
        "torchrun.",
        TRAINING,
        shown=True,
        min=1,
    ),
]
FitDeviceOption = Annotated[
    FitDevice,
    option(
        "--device",
        "Device to train on; auto uses a CUDA GPU if there is one. mps, Apple's GPU, is used only on request.",
        HOW,
        shown=True,
    ),
]
TensorboardOption = Annotated[bool, option("--tensorboard", "Also write TensorBoard files.", OUTPUT, shown=True)]


def check_fit_device(device: FitDevice) -> None:
    """Raise if a device is not available."""
    if device is not FitDevice.mps:
        check_device(Device(device.value))
        return
    import torch

    if not torch.backends.mps.is_available():
        raise EigenmapError("torch finds no Apple GPU here; leave --device mps out, or use --device cpu.")


def check_run(
    resume: bool, force: bool, epochs: float | None = None, steps: int | None = None, minutes: float | None = None
) -> None:
    """Refuse to both continue and replace a run, and a length of training in epochs and in something else."""
    if epochs is not None and (steps is not None or minutes is not None):
        raise EigenmapError("Give the length of training by --epochs, or by --steps or --minutes, not both.")
    if resume and force:
        raise EigenmapError("Give --resume to continue the existing run or --force to replace it, not both.")


def recipe_settings(
    recipe: type[BaseRecipe],
    pairs: list[str] | None,
    options: dict[str, Any],
    config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Merge the settings given by `--set` and by their own options; each must be a field of the recipe, given once.

    Both take precedence over those of `--config`.
    """
    from eigenmap.recipes.recipe import require_settings

    settings, given = parse_settings(pairs or []), {name: value for name, value in options.items() if value is not None}
    twice = next((name for name in settings if name in given), None)
    if twice is not None:
        raise EigenmapError(f"{twice} is given twice, by --set and by its own option; give it once.")
    merged = {**(config or {}), **settings, **given}
    require_settings(recipe, merged)
    return merged


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Parse `name=value` pairs into a dictionary; values are JSON if they parse as JSON, else text.

    >>> parse_settings(["clip_norm=1", "codes=projector", "compile=true"])
    {'clip_norm': 1, 'codes': 'projector', 'compile': True}
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name:
            raise EigenmapError(f"--set takes name=value, for example --set clip_norm=1, not {pair!r}.")
        try:
            read = parse_json(value)
        except ValueError:
            read = value
        if read is None:  # for a recipe it would mean "unchanged", which nobody who types it expects
            raise EigenmapError(
                f"--set {pair} gives no value; leave it out to keep the recipe's (clip_norm=0: no clip)."
            )
        name = name.replace("-", "_")
        if name in settings:
            raise EigenmapError(f"--set {name} is given twice: give it once.")
        settings[name] = read
    return settings


def leading_eigenvalues(model: Eigenmap) -> str:
    """Format the first eight eigenvalues, with dots if there are more."""
    more = ["..."] if len(model.eigenvalues_) > 8 else []
    return " ".join([*(f"{mu:.2f}" for mu in model.eigenvalues_[:8]), *more])
