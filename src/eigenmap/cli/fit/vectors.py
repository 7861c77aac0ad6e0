"""`eigenmap fit vectors`: from existing embeddings to short, ordered codes."""

from __future__ import annotations

import shlex
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eigenmap.cli.console import log_function, note, number_table, print_result, progress_bar
from eigenmap.cli.fit.config import Config, ConfigOption, read_config, seed_of, was_given
from eigenmap.cli.fit.images import fit
from eigenmap.cli.fit.options import (
    NETWORK,
    TRAINING,
    ComponentsOption,
    FitDevice,
    FitDeviceOption,
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
    check_fit_device,
    check_run,
    recipe_settings,
)
from eigenmap.cli.options import JsonOption, QuietOption, argument, option
from eigenmap.cli.outputs import check_files, write_json_output
from eigenmap.core.errors import EigenmapError
from eigenmap.core.words import count

if TYPE_CHECKING:
    from rich.table import Table

    from eigenmap.linear.timescales import Timescales
    from eigenmap.model import Eigenmap

RELATION = "What belongs together (one of these)"
MORE = "More about pairs"
_NEIGHBOURS = 10


class Solver(str, Enum):
    """Method that finds the codes."""

    linear = "linear"
    neural = "neural"
    neural_large = "neural-large"


@fit.command(
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap fit vectors titles.npy --pairs texts.npy --out runs/text[/cyan]

[cyan]  eigenmap fit vectors images.npy --pairs captions.npy --out runs/both[/cyan]

[cyan]  eigenmap fit vectors documents.npy --pairs clicks.npy --weights counts.npy --out runs/clicks[/cyan]

[cyan]  eigenmap fit vectors new.npy --pairs old.npy --into runs/text --out runs/new[/cyan]

[cyan]  eigenmap fit vectors run1.npy run2.npy --lag 10 --out runs/slow[/cyan]

[cyan]  eigenmap embed runs/text titles.npy --out codes.npy --dim 32[/cyan]
""",
)
def vectors(
    ctx: typer.Context,
    source: Annotated[
        list[Path],
        argument(
            "VECTORS",
            "One vector per row: .npy (memory-mapped), .parquet or .arrow with a column of lists (FILE:COLUMN if there "
            "are several).",
        ),
    ],
    out: RunOption,
    pairs: Annotated[
        Path | None,
        option(
            "--pairs FILE",
            "Partner vectors (floats): row i belongs to row i of VECTORS. Partners of another length form a second "
            "space with a map of its own. Or index pairs (two columns of whole numbers).",
            RELATION,
        ),
    ] = None,
    views: Annotated[
        list[Path] | None, option("--views FILE...", "More vectors of the same items, in the same space.", RELATION)
    ] = None,
    neighbours: Annotated[
        bool,
        option(
            "--neighbours",
            "Rows that are among each other's 10 nearest. Needs only the vectors.",
            RELATION,
            shown=True,
        ),
    ] = False,
    second: Annotated[
        Path | None,
        option(
            "--second FILE",
            "Vectors of the same items by another model: features that both agree on come first.",
            RELATION,
        ),
    ] = None,
    lag: Annotated[
        int | None,
        option(
            "--lag N",
            "Rows are a time series; rows N steps apart belong together, and features are its slow modes. Several "
            "files are several trajectories.",
            RELATION,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        option(
            "--labels FILE",
            "Rows with the same label: an .npy file of numbers or strings, or a text file with one label per line.",
            RELATION,
        ),
    ] = None,
    weights: Annotated[Path | None, option("--weights FILE", "One weight per index pair, an .npy file.", MORE)] = None,
    others: Annotated[
        Path | None,
        option(
            "--others FILE",
            "Vectors that the second column of index pairs refers to [dim](default: VECTORS)[/dim].",
            MORE,
        ),
    ] = None,
    two_spaces: Annotated[
        bool,
        option(
            "--two-spaces", "Partner vectors are in another space although they have the same length.", MORE, shown=True
        ),
    ] = False,
    trajectories: Annotated[
        Path | None,
        option("--trajectories FILE", "Number of rows of each trajectory (.npy), if one file holds several.", MORE),
    ] = None,
    reversible: Annotated[
        bool,
        option(
            "--reversible/--forward",
            "Use both directions of time (TICA), or only the forward one, with a map for each end of a pair (VAMP).",
            MORE,
            shown=True,
        ),
    ] = True,
    lags: Annotated[
        str | None,
        option(
            "--lags N,N,...",
            "Further lags at which implied timescales are listed [dim](default: twice and four times --lag)[/dim].",
            MORE,
        ),
    ] = None,
    into: Annotated[
        Path | None,
        option(
            "--into RUN",
            "An existing model of the vectors in --pairs: VECTORS, from a new embedding model, get codes comparable "
            "with those already stored.",
            MORE,
        ),
    ] = None,
    solver: Annotated[
        Solver,
        option(
            "--solver",
            "linear: closed form, one pass. neural: adds a residual head, kept only if it finds more on held-out "
            "pairs. neural-large: a larger head, for tens of thousands of pairs and a GPU.",
            NETWORK,
            shown=True,
        ),
    ] = Solver.linear,
    unit: Annotated[
        bool | None,
        option(
            "--unit-rows/--no-unit-rows",
            "Scale rows to norm 1 first [dim](default: if that finds more partners)[/dim].",
            NETWORK,
        ),
    ] = None,
    steps: StepsOption = None,
    minutes: MinutesOption = None,
    n_components: ComponentsOption = None,
    width: Annotated[
        int | None, option("--width N", "Units of the head's hidden layer [dim](default: the solver's)[/dim].", NETWORK)
    ] = None,
    objective: ObjectiveOption = None,
    batch_size: Annotated[int | None, option("--batch-size N", "Pairs per step.", TRAINING)] = None,
    lr: RateOption = None,
    setting: Annotated[
        list[str] | None,
        option(
            "--set NAME=VALUE",
            "Any other training setting, as often as needed: weight_decay=0.1, precision=bf16-mixed.",
            TRAINING,
        ),
    ] = None,
    config: ConfigOption = None,
    seed: TrainingSeedOption = 0,
    threads: ThreadsOption = None,
    device: FitDeviceOption = FitDevice.auto,
    resume: ResumeOption = False,
    force: OverwriteOption = False,
    tensorboard: TensorboardOption = False,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Learn short, ordered codes of existing vectors from pairs that belong together.

    Vectors that belong together should get the same code. Features are sorted by how much partners share of each, so
    codes can be cut anywhere. A tenth of the pairs is held out to choose the map, its ridge and its weights; PCA and
    the plain prefix of the vector are among the candidates.
    """
    from eigenmap.fitting.time import timescales_of
    from eigenmap.fitting.vectors import fit_vectors, metric_of, scores_of
    from eigenmap.recipes.vectors import VectorRecipe

    check_run(resume, force)
    partners = [pairs, second, labels, weights, others, trajectories, into, config, *(views or [])]
    check_files(force, json, reads=[*source, *partners])
    options = {
        "n_components": n_components,
        "steps": steps,
        "width": width,
        "objective": objective,
        "batch_size": batch_size,
        "lr": lr,
    }
    earlier = read_config(config, other_length=minutes is not None)
    method, earlier = _solver(earlier, solver.value if was_given(ctx, "solver") else None)
    if into is not None:
        earlier = earlier.only()  # codes keep the length of those they are to be compared with
    settings = recipe_settings(VectorRecipe, setting, options, earlier.settings)
    check_fit_device(device)
    first, *more = source
    if more and not views and lag is None:
        raise EigenmapError(f"Give one file of vectors; is {more[0]} a view (--views)?")
    with progress_bar("reading", quiet) as tick:
        model = fit_vectors(
            source if more and lag is not None else first,
            settings.pop("n_components", None),
            pairs=pairs,
            views=[*views, *more] if views else None,
            neighbours=_NEIGHBOURS if neighbours else None,
            second=second,
            lag=lag,
            labels=labels,
            weights=weights,
            others=others,
            two_spaces=two_spaces or (earlier.two_spaces and pairs is not None and into is None),
            trajectories=trajectories,
            reversible=reversible,
            lags=None if lags is None else _numbers(lags),
            into=into,
            solver=method,
            unit=earlier.unit if unit is None else unit,
            out=out,
            resume=resume,
            force=force,
            minutes=minutes,
            seed=seed_of(ctx, seed, earlier),
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
        print_result(score_table(scores_of(model), metric_of(model)))
        found = timescales_of(model)
        if found is not None:
            print_result(timescale_table(found))
        _summarise(model, out)


def _solver(config: Config, given: str | None) -> tuple[Any, Config]:
    """Return the solver, and what of the file applies to it: the closed form has no settings of training."""
    recorded = config.settings.get("solver")
    method = given or recorded or Solver.linear.value
    if config.recipe is not None and (method == Solver.linear.value or method != recorded):
        return method, config.only("n_components")
    return method, config.only(*(name for name in config.settings if name != "solver"))


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise EigenmapError(
            f"--lags must be whole numbers separated by commas, such as 5,10,20, not {text!r}."
        ) from None


def timescale_table(found: Timescales) -> Table:
    """Return a table of the implied timescales of the slowest modes, by lag."""
    modes = [f"mode {mode}" for mode in range(1, found.eigenvalues.shape[1] + 1)]
    rows = (
        [f"{lag:,}", *(f"{value:,.1f}" if value == value else "" for value in row)]
        for lag, row in zip(found.lags, found.timescales, strict=True)
    )
    return number_table("Implied timescales, in rows", ["lag", *modes], rows)


def score_table(scores: dict[str, dict[int, float]], metric: str = "ndcg@10") -> Table:
    """Return a table of scores on held-out pairs, by length and method."""
    names = {"ours": "ours", "linear": "linear", "pca": "PCA", "prefix": "prefix"}
    shown = [name for name in names if name in scores]
    rows = (
        [str(dim), *(f"{scores[name][dim]:.3f}" if dim in scores[name] else "" for name in shown)]
        for dim in sorted({dim for each in scores.values() for dim in each})
    )
    title = "VAMP-2 score on held-out pairs" if metric == "vamp-2" else "nDCG@10 on held-out pairs"
    return number_table(title, ["features", *(names[name] for name in shown)], rows)


def _summarise(model: Eigenmap, out: Path) -> None:
    """Report what was made and what to do next."""
    about = model.training["vectors"]
    if "time" in about:
        _summarise_time(model, out)
        return
    what = {
        "pairs": "a linear map fitted to the pairs",
        "pca": "PCA: nothing fitted to the pairs does better",
        "pca whitened": "whitened PCA: nothing fitted to the pairs does better",
        "prefix": "the plain prefix: no rotation does better",
        "neural": "a neural head on top of the linear map",
    }[about["winner"]]
    spaces = " for each of two spaces" if about["two_spaces"] else ""
    note(
        f"{out}: {model.n_components} ordered features{spaces} from {count(about['pairs'], 'pair')}; the best on "
        f"{about['held_out']:,} held-out queries is {what}."
    )
    note(f"{about['keeps']['dim']} features keep {about['keeps']['share']:.0%} of the score of all of them.")
    side = " --side left" if about["two_spaces"] else ""
    note(
        f"Next: eigenmap embed {shlex.quote(str(out))} VECTORS.npy --out codes.npy --dim {about['keeps']['dim']}{side}"
    )


def _summarise_time(model: Eigenmap, out: Path) -> None:
    about = model.training["vectors"]
    time, head = about["time"], "a neural head" if about["winner"] == "neural" else "a linear map"
    several = f" of {time['trajectories']:,} trajectories" if time["trajectories"] > 1 else ""
    way = "both directions of time" if time["reversible"] else "forward in time, a map for each end"
    note(
        f"{out}: {model.n_components} modes from {about['rows']:,} rows{several} at lag {time['lag']:,} ({way}); the "
        f"winner on {about['held_out']:,} held-out pairs is {head}."
    )
    further = f"--dim {min(5, model.n_components)}" + ("" if time["reversible"] else " --side left")
    note(f"Next: eigenmap embed {shlex.quote(str(out))} VECTORS.npy --out modes.npy {further}")
