"""Options shared by several verbs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from eigenmap.core.errors import EigenmapError

WHAT, HOW, DATABASE, OUTPUT = "What", "How", "Database", "Output"
"""Headings of options in the help of a verb."""

SOURCES_HELP = "A folder of any depth, an .npy or .npz array, a Parquet file, or one image."


class Device(str, Enum):
    """Device to compute on."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


ModelArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="The model written by `eigenmap fit`.", show_default=False)
]
SourceArgument = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help=f"The images. {SOURCES_HELP} The word catalogue stands for the pictures that `eigenmap demo` learns from.",
        show_default=False,
    ),
]

DimOption = Annotated[
    int | None,
    typer.Option(
        "--dim",
        "-d",
        metavar="N",
        help="Length at which to cut codes [dim](default: all features)[/dim].",
        show_default=False,
    ),
]
BatchOption = Annotated[
    int, typer.Option("--batch-size", metavar="N", min=1, help="Images per batch.", rich_help_panel=HOW)
]
DeviceOption = Annotated[
    Device, typer.Option("--device", help="Device to compute on; auto uses a GPU if there is one.", rich_help_panel=HOW)
]
StrictOption = Annotated[
    bool,
    typer.Option("--strict", help="Fail on an unreadable image instead of skipping it.", rich_help_panel=HOW),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars or notes.", rich_help_panel=OUTPUT)]
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Replace existing output.", rich_help_panel=OUTPUT)]
TableOption = Annotated[
    str | None,
    typer.Option(
        "--table",
        metavar="NAME",
        help="Table in the database; schema.name for one in another schema.",
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
    """Return `cpu` or `cuda`; raise if it is not available."""
    import torch

    if device is Device.cuda and not torch.cuda.is_available():
        raise EigenmapError("torch finds no CUDA device here; leave --device out, or use --device cpu.")
    return "cuda" if device is not Device.cpu and torch.cuda.is_available() else "cpu"
