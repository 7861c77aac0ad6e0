"""Options shared by several verbs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from eigenmap.core.errors import EigenmapError

WHAT, HOW, DATABASE, OUTPUT = "What", "How", "Database", "Output"
"""Headings of options in the help of a verb."""

SOURCES_HELP = "A folder of any depth, an .npy or .npz array, a Parquet file, or one image."


def option(usage: str, help: str, panel: str | None = None, *, shown: bool = False, **more: Any) -> Any:
    """Declare an option by its usage, `option("--out -o RUN", "Folder for the model.", OUTPUT)`.

    The help lists the default only if `shown`.
    """
    names = [word for word in usage.split() if word.startswith("-")]
    metavar = next((word for word in usage.split() if not word.startswith("-")), None)
    return typer.Option(*names, metavar=metavar, help=help, show_default=shown, rich_help_panel=panel, **more)


def argument(metavar: str, help: str) -> Any:
    """Declare an argument."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


class Device(str, Enum):
    """Device to compute on."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


ModelArgument = Annotated[Path, argument("RUN", "The model written by `eigenmap fit`.")]
SOURCE_HELP = f"The images. {SOURCES_HELP} The word catalogue stands for the pictures that `eigenmap demo` learns from."

DimOption = Annotated[
    int | None, option("--dim -d N", "Length at which to cut codes [dim](default: all features)[/dim].")
]
BatchOption = Annotated[int, option("--batch-size N", "Images per batch.", HOW, min=1, shown=True)]
DeviceOption = Annotated[
    Device, option("--device", "Device to compute on; auto uses a GPU if there is one.", HOW, shown=True)
]
StrictOption = Annotated[
    bool, option("--strict", "Fail on an unreadable image instead of skipping it.", HOW, shown=True)
]
QuietOption = Annotated[bool, option("--quiet -q", "No progress bars or notes.", OUTPUT, shown=True)]
ForceOption = Annotated[bool, option("--force -f", "Replace existing output.", OUTPUT, shown=True)]
TableOption = Annotated[
    str | None, option("--table NAME", "Table in the database; schema.name for one in another schema.", DATABASE)
]
JsonOption = Annotated[Path | None, option("--json FILE", "Also write the result as JSON.", OUTPUT)]


def check_device(device: Device) -> str:
    """Return `cpu` or `cuda`; raise if it is not available."""
    import torch

    if device is Device.cuda and not torch.cuda.is_available():
        raise EigenmapError("torch finds no CUDA device here; leave --device out, or use --device cpu.")
    return "cuda" if device is not Device.cpu and torch.cuda.is_available() else "cpu"
