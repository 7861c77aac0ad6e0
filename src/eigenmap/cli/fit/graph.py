"""`eigenmap fit graph`: from nodes with features and edges to a model of ordered codes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigenmap.cli.console import duration, log_function, note, progress_bar
from eigenmap.cli.fit.config import ConfigOption, read_config, seed_of, was_given
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
    leading_eigenvalues,
    recipe_settings,
)
from eigenmap.cli.options import QuietOption, argument, option
from eigenmap.core.words import count

if TYPE_CHECKING:
    from eigenmap.model import Eigenmap

RELATION = "Relation"


@fit.command(
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap fit graph cora.npz --out runs/cora -k 64[/cyan]

[cyan]  eigenmap fit graph cora.npz -o runs/cora --go-on 0.7 --set feature_dropout=0.3[/cyan]

[cyan]  eigenmap embed runs/cora new_features.npy --out codes.npy[/cyan]
""",
)
def graph(
    ctx: typer.Context,
    source: Annotated[
        Path,
        argument(
            "GRAPH",
            "An .npz file, or a folder of .npy files, with edge_index and x; the format is in docs/graphs.md. "
            "Or ogb:NAME, pyg:NAME.",
        ),
    ],
    out: RunOption,
    steps: StepsOption = None,
    minutes: MinutesOption = None,
    n_components: ComponentsOption = None,
    width: Annotated[
        int | None,
        option(
            "--width N",
            "Units of each layer of the residual perceptron, which then has one block; by default, width and blocks "
            "are chosen on held-out edges.",
            NETWORK,
        ),
    ] = None,
    hops: Annotated[
        int | None, option("--hops N", "1: neighbours belong together; 2: nodes with a common neighbour.", RELATION)
    ] = None,
    start: Annotated[
        str | None,
        option(
            "--start NAME",
            "Measure of nodes: degree; uniform, in which hubs count less; or balanced, which is degree with small "
            "parts of the graph drawn more often.",
            RELATION,
        ),
    ] = None,
    go_on: Annotated[
        float | None,
        option(
            "--go-on P",
            "Pairs are the ends of random walks that continue with this probability after each step, 0 to 0.9. "
            "Try 0.7 if edges are few or noisy.",
            RELATION,
        ),
    ] = None,
    directed: Annotated[
        str | None,
        option(
            "--directed NAME", "symmetrise, or bipartite: nodes that point to the same node belong together.", RELATION
        ),
    ] = None,
    sampler: Annotated[str | None, option("--sampler NAME", "edges or node-blocks.", RELATION)] = None,
    recipe: Annotated[str, option("--recipe NAME", "auto or paper.", TRAINING, shown=True)] = "auto",
    objective: ObjectiveOption = None,
    batch_size: Annotated[int | None, option("--batch-size N", "Edges per step.", TRAINING)] = None,
    lr: RateOption = None,
    setting: Annotated[
        list[str] | None,
        option(
            "--set NAME=VALUE",
            "Any other setting of the recipe, as often as needed: feature_dropout=0.5, teleport=0, held_out=0.05, "
            "codes=projector.",
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
    quiet: QuietOption = False,
) -> None:
    """Learn ordered codes of the nodes of a graph, from their features and edges.

    The two ends of an edge should get the same code.
    Afterwards, features are enough to embed a node, even a new one; no graph is needed.
    """
    from eigenmap.fitting.graph import fit_graph
    from eigenmap.recipes.graph import GRAPHS, GraphRecipe

    check_run(resume, force)
    options = {
        "n_components": n_components,
        "steps": steps,
        "width": width,
        "hops": hops,
        "start": start,
        "go_on": go_on,
        "directed": directed,
        "sampler": sampler,
        "objective": objective,
        "batch_size": batch_size,
        "lr": lr,
    }
    earlier = read_config(config, other_length=minutes is not None)
    settings = recipe_settings(GraphRecipe, setting, options, earlier.settings)
    check_fit_device(device)
    with progress_bar("reading", quiet) as reading:
        model = fit_graph(
            source,
            recipe=earlier.recipe if earlier.recipe in GRAPHS and not was_given(ctx, "recipe") else recipe,
            out=out,
            resume=resume,
            force=force,
            minutes=minutes,
            seed=seed_of(ctx, seed, earlier),
            threads=threads,
            device=device.value,
            tensorboard=tensorboard,
            progress=not quiet,
            reading=reading,
            say=log_function(quiet),
            **settings,
        )
    if not quiet:
        _summarise(model, out)


def _summarise(model: Eigenmap, out: Path) -> None:
    """Report what was made and what to do next."""
    about = model.training
    note(
        f"{out}: {model.n_components} ordered features from {count(about['graph']['edges'], 'edge')}, "
        f"{count(about['steps'], 'step')} in {duration(about['seconds'])}."
    )
    note(f"Eigenvalues (what the two ends of an edge share of each feature): {leading_eigenvalues(model)}")
    note(f"Next: eigenmap embed {shlex.quote(str(out))} NEW_FEATURES.npy --out codes.npy")
