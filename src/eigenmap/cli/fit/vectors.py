"""`eigenmap fit vectors`: from embeddings that are there already to short, ordered codes."""

from __future__ import annotations

import shlex
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eigenmap.cli.console import log_function, note, print_result, progress_bar
from eigenmap.cli.fit.images import all_settings, fit
from eigenmap.cli.fit.options import (
    NETWORK,
    TRAINING,
    ComponentsOption,
    MinutesOption,
    ObjectiveOption,
    OverwriteOption,
    RateOption,
    ResumeOption,
    RunOption,
    StepsOption,
    TensorboardOption,
    ThreadsOption,
    TrainingSeedOption,
    check_restart,
)
from eigenmap.cli.options import Device, DeviceOption, JsonOption, QuietOption, check_device
from eigenmap.cli.outputs import check_file, write_json_output
from eigenmap.core.errors import EigenmapError

if TYPE_CHECKING:
    from eigenmap.model import Eigenmap

RELATION = "What belongs together (one of these)"
MORE = "More about pairs"
_NEIGHBOURS = 10


class Solver(str, Enum):
    """How codes are found."""

    linear = "linear"
    neural = "neural"


@fit.command(
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap fit vectors titles.npy --pairs texts.npy --out runs/text[/cyan]

[cyan]  eigenmap fit vectors images.npy --pairs captions.npy --out runs/both[/cyan]

[cyan]  eigenmap fit vectors documents.npy --pairs clicks.npy --weights counts.npy --out runs/clicks[/cyan]

[cyan]  eigenmap fit vectors new.npy --pairs old.npy --into runs/text --out runs/new[/cyan]

[cyan]  eigenmap embed runs/text titles.npy --out codes.npy --dim 32[/cyan]
""",
)
def vectors(
    source: Annotated[
        list[Path],
        typer.Argument(
            metavar="VECTORS",
            help="One vector per row: .npy (any size, memory-mapped), .parquet or .arrow with a column of lists "
            "(FILE:COLUMN where there are several). float16 is fine.",
            show_default=False,
        ),
    ],
    out: RunOption,
    pairs: Annotated[
        Path | None,
        typer.Option(
            "--pairs",
            metavar="FILE",
            help="Partner vectors (floats): row i belongs to row i. Rows of another length are of another space, which "
            "gets a map of its own. Or index pairs (two columns of whole numbers).",
            show_default=False,
            rich_help_panel=RELATION,
        ),
    ] = None,
    views: Annotated[
        list[Path] | None,
        typer.Option(
            "--views",
            metavar="FILE...",
            help="Further vectors of the same things, in the same space.",
            show_default=False,
            rich_help_panel=RELATION,
        ),
    ] = None,
    neighbours: Annotated[
        bool,
        typer.Option(
            "--neighbours",
            help="Rows that are among each other's 10 nearest. Needs nothing but the vectors.",
            rich_help_panel=RELATION,
        ),
    ] = False,
    second: Annotated[
        Path | None,
        typer.Option(
            "--second",
            metavar="FILE",
            help="The same things as another model sees them: what both agree on comes first.",
            show_default=False,
            rich_help_panel=RELATION,
        ),
    ] = None,
    lag: Annotated[
        int | None,
        typer.Option(
            "--lag",
            metavar="N",
            help="Rows are a time series, and belong together N rows apart.",
            show_default=False,
            rich_help_panel=RELATION,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="Rows of one class: an .npy file of numbers or texts, or a text file with a label per line.",
            show_default=False,
            rich_help_panel=RELATION,
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            metavar="FILE",
            help="A weight per index pair, .npy.",
            show_default=False,
            rich_help_panel=MORE,
        ),
    ] = None,
    others: Annotated[
        Path | None,
        typer.Option(
            "--others",
            metavar="FILE",
            help="The vectors that the second column of index pairs counts [dim](default: VECTORS)[/dim].",
            show_default=False,
            rich_help_panel=MORE,
        ),
    ] = None,
    two_spaces: Annotated[
        bool,
        typer.Option(
            "--two-spaces",
            help="Partner vectors are of another space although they are equally long.",
            rich_help_panel=MORE,
        ),
    ] = False,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            metavar="RUN",
            help="A model of the vectors of --pairs whose codes are stored already: VECTORS, of a new model, get codes "
            "that can be compared with these.",
            show_default=False,
            rich_help_panel=MORE,
        ),
    ] = None,
    solver: Annotated[
        Solver,
        typer.Option(
            "--solver",
            help="linear: closed form, one pass. neural: a residual head that starts there, and is kept only if it "
            "finds more on held-out pairs.",
            rich_help_panel=NETWORK,
        ),
    ] = Solver.linear,
    unit: Annotated[
        bool | None,
        typer.Option(
            "--unit-rows/--no-unit-rows",
            help="Scale rows to one norm first [dim](default: if that finds more)[/dim].",
            show_default=False,
            rich_help_panel=NETWORK,
        ),
    ] = None,
    steps: StepsOption = None,
    minutes: MinutesOption = None,
    n_components: ComponentsOption = None,
    width: Annotated[
        int | None,
        typer.Option(
            "--width",
            metavar="N",
            help="Units of the head's hidden layer [dim](default: 512)[/dim].",
            show_default=False,
            rich_help_panel=NETWORK,
        ),
    ] = None,
    objective: ObjectiveOption = None,
    batch_size: Annotated[
        int | None,
        typer.Option("--batch-size", metavar="N", help="Pairs per step.", show_default=False, rich_help_panel=TRAINING),
    ] = None,
    lr: RateOption = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting of the training, as often as needed: weight_decay=0.1, precision=bf16-mixed.",
            show_default=False,
            rich_help_panel=TRAINING,
        ),
    ] = None,
    seed: TrainingSeedOption = 0,
    threads: ThreadsOption = None,
    device: DeviceOption = Device.auto,
    resume: ResumeOption = False,
    force: OverwriteOption = False,
    tensorboard: TensorboardOption = False,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Learn short, ordered codes of vectors that you have, from what belongs together.

    What belongs together should get the same code; features come sorted by how much of them is shared, so that codes
    can be cut anywhere. A tenth of the pairs is held out: on it the map, its ridge, its weights and whether to rotate
    at all are chosen, with PCA and the plain prefix of the vector among the candidates.
    """
    from eigenmap.fitting.vectors import fit_vectors, scores_of
    from eigenmap.recipes.recipe import require_settings
    from eigenmap.recipes.vectors import VectorRecipe

    check_restart(resume, force)
    if json is not None:
        check_file(json, force)
    options = {"steps": steps, "width": width, "objective": objective, "batch_size": batch_size, "lr": lr}
    settings = all_settings(setting or [], options)
    require_settings(VectorRecipe, settings)
    check_device(device)
    first, *more = source
    if more and not views:
        raise EigenmapError(f"One file of vectors is needed, and {more[0]} is another; is it a view (--views)?")
    with progress_bar("reading", quiet) as tick:
        model = fit_vectors(
            first,
            n_components,
            pairs=pairs,
            views=[*views, *more] if views else None,
            neighbours=_NEIGHBOURS if neighbours else None,
            second=second,
            lag=lag,
            labels=labels,
            weights=weights,
            others=others,
            two_spaces=two_spaces,
            into=into,
            solver=solver.value,
            unit=unit,
            out=out,
            resume=resume,
            force=force,
            minutes=minutes,
            seed=seed,
            threads=threads,
            device=device.value,
            tensorboard=tensorboard,
            progress=not quiet,
            reading=tick,
            say=log_function(quiet),
            **settings,
        )
    if json is not None:
        write_json_output(json, {"measured": "held-out pairs", "run": str(out), **model.training["vectors"]})
    if not quiet:
        print_result(score_table(scores_of(model)))
        _summarise(model, out)


def score_table(scores: dict[str, dict[int, float]]) -> Any:
    """What is found on held-out pairs, by length and method."""
    from rich.table import Table

    table = Table(title="nDCG@10 on held-out pairs", title_justify="left")
    names = {"ours": "ours", "linear": "linear", "pca": "PCA", "prefix": "prefix"}
    shown = [name for name in names if name in scores]
    for name in ("features", *(names[name] for name in shown)):
        table.add_column(name, justify="right")
    for dim in sorted({dim for each in scores.values() for dim in each}):
        table.add_row(str(dim), *(f"{scores[name][dim]:.3f}" if dim in scores[name] else "" for name in shown))
    return table


def _summarise(model: Eigenmap, out: Path) -> None:
    """Say what was made, and what to do with it."""
    about = model.training["vectors"]
    what = {
        "pairs": "a linear map fitted to the pairs",
        "pca": "PCA: nothing fitted to the pairs does better",
        "pca whitened": "whitened PCA: nothing fitted to the pairs does better",
        "prefix": "the plain prefix: no rotation does better",
        "neural": "a neural head on top of the linear map",
    }[about["winner"]]
    spaces = " for each of two spaces" if about["two_spaces"] else ""
    note(
        f"{out}: {model.n_components} ordered features{spaces} from {about['pairs']:,} pairs; the winner on "
        f"{about['held_out']:,} held-out queries is {what}."
    )
    note(f"{about['keeps']['dim']} features keep {about['keeps']['share']:.0%} of what all find.")
    side = " --side left" if about["two_spaces"] else ""
    note(
        f"Next: eigenmap embed {shlex.quote(str(out))} VECTORS.npy --out codes.npy --dim {about['keeps']['dim']}{side}"
    )
