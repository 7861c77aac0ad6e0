"""Options that several verbs have, and what they mean."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from eigenmap.core.errors import EigenmapError

WHAT, HOW, DATABASE, OUTPUT = "What", "How", "Database", "Output"
"""Headings of options in the help of a verb."""

SOURCES_HELP = "A folder of any depth, an .npy or .npz array, a parquet file, or one image."


class Device(str, Enum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


ModelArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="The model: what `eigenmap fit` wrote.", show_default=False)
]
SourceArgument = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help=f"The images. {SOURCES_HELP} The word catalogue: the pictures that `eigenmap demo` learns from.",
        show_default=False,
    ),
]

DimOption = Annotated[
    int | None,
    typer.Option(
        "--dim",
        "-d",
        metavar="N",
        help="Cut codes at so many features [dim](default: all)[/dim].",
        show_default=False,
    ),
]
BatchOption = Annotated[
    int, typer.Option("--batch-size", metavar="N", min=1, help="Images at a time.", rich_help_panel=HOW)
]
DeviceOption = Annotated[
    Device, typer.Option("--device", help="Where to compute; auto takes a GPU if there is one.", rich_help_panel=HOW)
]
StrictOption = Annotated[
    bool,
    typer.Option("--strict", help="Fail on an unreadable image instead of leaving it out.", rich_help_panel=HOW),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress bars and no notes.", rich_help_panel=OUTPUT)
]
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Replace what is there.", rich_help_panel=OUTPUT)]
TableOption = Annotated[
    str | None,
    typer.Option(
        "--table",
        metavar="NAME",
        help="The table in the database; schema.name for one in another schema.",
        show_default=False,
        rich_help_panel=DATABASE,
    ),
]
JsonOption = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Also write the result as JSON.", show_default=False, rich_help_panel=OUTPUT
    ),
]


def check_device(device: Device) -> str:
    """`cpu` or `cuda`, if it is there."""
    import torch

    if device is Device.cuda and not torch.cuda.is_available():
        raise EigenmapError("There is no CUDA device here that torch can use; leave --device out, or say --device cpu.")
    return "cuda" if device is not Device.cpu and torch.cuda.is_available() else "cpu"
