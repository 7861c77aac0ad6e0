"""Options shared by all kinds of `eigenmap fit`."""

from pathlib import Path
from typing import Annotated

from eigenmap.cli.options import OUTPUT, option
from eigenmap.core.errors import EigenmapError

NETWORK, TRAINING, LENGTH = "Network", "Training", "Length of training (one of these)"
"""Headings in the help."""

RunOption = Annotated[Path, option("--out -o RUN", "Folder for the model, its checkpoints and metrics.jsonl.", OUTPUT)]
StepsOption = Annotated[int | None, option("--steps N", "Steps of one batch each.", LENGTH)]
MinutesOption = Annotated[
    float | None, option("--minutes X", "Train for this time, as many steps as fit; it ends on time.", LENGTH)
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
    option("--seed N", "Random seed; runs on a CPU repeat exactly with as many threads.", TRAINING, shown=True),
]
ThreadsOption = Annotated[
    int | None,
    option(
        "--threads N",
        "CPU threads [dim](default: OMP_NUM_THREADS, or what is fastest at the start)[/dim].",
        TRAINING,
        min=1,
    ),
]
ResumeOption = Annotated[
    bool,
    option("--resume", "Continue from the last checkpoint in RUN, also for longer than planned.", OUTPUT, shown=True),
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
        "Machines with as many processes each; MASTER_ADDR and NODE_RANK say which one this is. Leave it out under "
        "torchrun.",
        TRAINING,
        shown=True,
        min=1,
    ),
]
TensorboardOption = Annotated[bool, option("--tensorboard", "Also write TensorBoard files.", OUTPUT, shown=True)]


def check_restart(resume: bool, force: bool) -> None:
    """Raise if a run is to be both continued and replaced."""
    if resume and force:
        raise EigenmapError("Give --resume to continue the existing run or --force to replace it, not both.")
