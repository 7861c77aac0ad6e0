"""Options that all kinds of `eigenmap fit` have."""

from pathlib import Path
from typing import Annotated

import typer

from eigenmap.cli.options import OUTPUT
from eigenmap.core.errors import EigenmapError

NETWORK, TRAINING, LENGTH = "Network", "Training", "Length of training (one of these)"
"""Headings in the help."""

RunOption = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        metavar="RUN",
        help="Folder for the model, its checkpoints and metrics.jsonl.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
StepsOption = Annotated[
    int | None,
    typer.Option("--steps", metavar="N", help="Steps of one batch each.", show_default=False, rich_help_panel=LENGTH),
]
MinutesOption = Annotated[
    float | None,
    typer.Option(
        "--minutes",
        metavar="X",
        help="As many steps as fit into this time on this machine.",
        show_default=False,
        rich_help_panel=LENGTH,
    ),
]
ComponentsOption = Annotated[
    int | None,
    typer.Option(
        "--components",
        "-k",
        metavar="N",
        help="Features to learn: the longest code [dim](default: the recipe's)[/dim].",
        show_default=False,
        rich_help_panel=NETWORK,
    ),
]
ObjectiveOption = Annotated[
    str | None,
    typer.Option(
        "--objective",
        metavar="NAME",
        help="What to train for, see `eigenmap objectives`.",
        show_default=False,
        rich_help_panel=TRAINING,
    ),
]
RateOption = Annotated[
    float | None,
    typer.Option("--lr", metavar="X", help="Peak learning rate.", show_default=False, rich_help_panel=TRAINING),
]
TrainingSeedOption = Annotated[
    int,
    typer.Option(
        "--seed", metavar="N", help="Of everything random; on a CPU runs repeat exactly.", rich_help_panel=TRAINING
    ),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on from the last checkpoint in RUN.", rich_help_panel=OUTPUT)
]
OverwriteOption = Annotated[
    bool, typer.Option("--force", "-f", help="Replace the run that is there.", rich_help_panel=OUTPUT)
]
DevicesOption = Annotated[
    int,
    typer.Option(
        "--devices",
        metavar="N",
        min=1,
        help="Processes on this machine, one per GPU; under torchrun leave it out.",
        rich_help_panel=TRAINING,
    ),
]
NodesOption = Annotated[
    int,
    typer.Option(
        "--nodes",
        metavar="N",
        min=1,
        help="Machines, each with as many processes; MASTER_ADDR and NODE_RANK say which one this is. Under torchrun "
        "leave it out.",
        rich_help_panel=TRAINING,
    ),
]
TensorboardOption = Annotated[
    bool, typer.Option("--tensorboard", help="Also write TensorBoard files.", rich_help_panel=OUTPUT)
]


def check_restart(resume: bool, force: bool) -> None:
    """Refuse to go on with a run and to replace it at once."""
    if resume and force:
        raise EigenmapError("Give --resume to go on with the run that is there or --force to replace it, not both.")
