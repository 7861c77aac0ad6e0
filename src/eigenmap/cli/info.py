"""`eigenmap info`, `eigenmap recipes` and `eigenmap objectives`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigenmap.cli.app import ABOUT, app
from eigenmap.cli.console import duration, print_result
from eigenmap.cli.options import ModelArgument
from eigenmap.core.words import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt
    from rich.table import Table

    from eigenmap.data.vectors.input import VectorInput
    from eigenmap.model import Eigenmap
    from eigenmap.relations.propagation import Propagation

    Values = npt.NDArray[np.float64]

_BAR = 30


@app.command(
    rich_help_panel=ABOUT,
    no_args_is_help=True,
    epilog="""
Example:

[cyan]  eigenmap info runs/mine[/cyan]
""",
)
def info(run: ModelArgument) -> None:
    """Describe a model: how it was made, how important its features are, and which code lengths are sensible.

    RUN may also be an index, of which items, format and model are described.
    """
    from eigenmap.description import KERNEL_FORMAT, format_of
    from eigenmap.model import Eigenmap
    from eigenmap.search.parts import model_in

    if (run / "index.json").is_file():
        print_result(_index_facts(run))
        made_by = model_in(run)
        if made_by is None:
            return
        run = made_by
    if format_of(run) == KERNEL_FORMAT:
        _kernel_model(run)
        return
    model = Eigenmap.load(run)
    print_result(_facts(model))
    print_result(_spectrum(model.eigenvalues_))
    if model.training.get("vectors"):
        from eigenmap.cli.fit.vectors import score_table, timescale_table
        from eigenmap.fitting.time import timescales_of
        from eigenmap.fitting.vectors import metric_of, scores_of

        print_result(score_table(scores_of(model), metric_of(model)))
        found = timescales_of(model)
        if found is not None:
            print_result(timescale_table(found))
        return
    print_result(_lengths(model))


@app.command(rich_help_panel=ABOUT)
def recipes() -> None:
    """List the recipes: named settings for `eigenmap fit images --recipe NAME`."""
    from eigenmap.recipes import RECIPES, get

    table = _table("recipe", "encoder", "components", "objective", "views", "epochs", "batch", "optimizer", "lr")
    for name, recipe in RECIPES.items():
        table.add_row(
            name,
            recipe.encoder,
            str(recipe.n_components),
            recipe.objective,
            recipe.views,
            f"{recipe.epochs:g}",
            str(recipe.batch_size),
            recipe.optimizer,
            f"{recipe.lr:g}",
        )
    print_result(table)
    print_result(f"auto, the default, is {get('auto').name} on this machine.")


@app.command(rich_help_panel=ABOUT)
def objectives() -> None:
    """List the objectives for `eigenmap fit images --objective NAME`."""
    from inspect import signature

    from eigenmap.objectives import OBJECTIVES, build

    table = _table("objective", "description", "objective_options")
    for name, constructor in OBJECTIVES.items():
        table.add_row(name, build(name).summary, ", ".join(signature(constructor).parameters))
    print_result(table)


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _facts(model: Eigenmap) -> Table:
    about = model.training
    recipe = about.get("recipe", {})
    made_of = "encoder and projector" if model.source == "both" else model.source
    facts = {"features": f"{model.n_components}, from the {made_of}", **_input_facts(model)}
    if about and (model.kind != "vectors" or about.get("steps")):
        facts |= {
            "objective": recipe.get("objective", "?"),
            "recipe": recipe.get("name", "?"),
            "training": f"{count(about.get('steps', 0), 'step')} in {duration(about.get('seconds', 0))}, "
            f"seed {about.get('seed', '?')}, on {about.get('device', '?')}",
        }
    facts["order"] = "the network's own" if model.alignment.own_order else f"rotated, ridge {model.alignment.ridge:g}"
    facts["weights"] = f"max(eigenvalue, 0)^{model.alignment.t:g}"
    return _grid(facts)


def _index_facts(place: Path) -> Table:
    from eigenmap.search import CodeIndex
    from eigenmap.search.parts import model_in

    with CodeIndex.open(place) as index:
        return _grid(
            {
                "items": f"{len(index):,}, by {count(index.n_components, 'feature')} each",
                "stored as": f"{index.about.precision}, compared by {index.metric}",
                "model": "none: vectors as they were given" if model_in(place) is None else f"in {place / 'model'}:",
            }
        )


def _grid(facts: Mapping[str, object]) -> Table:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        table.add_row(name, str(value))
    return table


def _input_facts(model: Eigenmap) -> dict[str, str]:
    """Describe the model's input and training data."""
    from eigenmap.data.vectors.input import VectorInput
    from eigenmap.model import ImageInput, NodeEncoderSpec, NodeInput

    about = model.training
    if isinstance(model.input, VectorInput):
        return _vector_facts(model, model.input)
    if isinstance(model.input, NodeInput) and isinstance(model.encoder, NodeEncoderSpec):
        graph, recipe = about.get("graph", {}), about.get("recipe", {})
        return {
            "nodes": f"by {count(model.input.n_features, 'feature')} each",
            "encoder": f"residual perceptron, width {model.encoder.width:,}, {count(model.encoder.blocks, 'block')}",
            "relation": f"{recipe.get('sampler', '?')}, {count(recipe.get('hops', 1), 'hop')}, "
            f"start {recipe.get('start', '?')}, teleport {recipe.get('teleport', '?')}",
            "trained on": f"{count(graph.get('nodes', 0), 'node')}, {count(graph.get('edges', 0), 'edge')} in "
            f"{count(graph.get('components', 0), 'component')}, {about.get('held_out_edges', 0):,} held out",
            "positive": f"{graph.get('positive_eigenvalues', '?')} of {count(model.n_components, 'eigenvalue')}",
            "neighbours": _neighbour_use(model.neighbours.propagation, model.input.hops),
        }
    assert isinstance(model.input, ImageInput)
    colour = "grey" if model.input.channels == 1 else "colour"
    name = getattr(model.encoder, "name", None)
    facts = {"images": f"{model.input.size} x {model.input.size} pixels, {colour}", "encoder": name or "your own"}
    if about:
        facts["views"] = about.get("recipe", {}).get("views", "?")
        facts["trained on"] = f"{count(about.get('images', 0), 'image')}, {about.get('held_out_images', 0):,} held out"
    return facts


def _neighbour_use(propagation: Propagation, feature_hops: int) -> str:
    """Say how codes use edges that are given with the nodes."""
    if feature_hops:
        return f"needed: features are averaged over {count(feature_hops, 'step')}, then codes: {propagation.in_words}"
    if propagation.way == "none":
        return "not averaged, even where edges are given"
    return f"averaged where edges are given: {propagation.in_words}"


def _vector_facts(model: Eigenmap, input: VectorInput) -> dict[str, str]:
    about = model.training.get("vectors", {})
    facts = {"vectors": f"of {input.length:,} numbers{', scaled to one norm' if input.unit else ''}"}
    if model.right is not None and isinstance(model.right.input, type(input)):
        facts["vectors"] += f" (left) and {model.right.input.length:,} (right)"
    return facts | {
        "relation": f"{about.get('relation', '?')}, {count(about.get('pairs', 0), 'pair')}",
        "held out": count(about.get("held_out", 0), "query", "queries"),
        "winner": f"{about.get('winner', '?')}, {'centred' if about.get('centred') else 'not centred'}",
    }


def _spectrum(eigenvalues: Sequence[float] | Values, largest: float = 1.0) -> Table:
    """Return eigenvalues 1, 2, 4, ... as numbers and bars, relative to the largest possible one."""
    table = _table("feature", "eigenvalue", "")
    for j in _places(len(eigenvalues)):
        mu = float(eigenvalues[j - 1])
        table.add_row(str(j), f"{mu:.3f}", "█" * round(_BAR * max(mu, 0.0) / largest))
    return table


def _kernel_model(place: Path) -> None:
    """Describe a saved `NeuralEigenmap`, without the objects that must be passed to `load` again."""
    from eigenmap.estimators.saved import read_estimator

    about, tensors = read_estimator(place)
    fitted, own, solver = about["fitted_with"], about["own"], about["solver"]
    options = ", ".join(f"{name} {value}" for name, value in (fitted["kernel_params"] or {}).items())
    kernel = own.get("kernel", fitted["kernel"])
    facts = {
        "estimator": "NeuralEigenmap: the eigenfunctions of a kernel",
        "kernel": f"{kernel}{f', {options}' if options else ''}",
        "points": f"by {count(about['n_features'], 'feature')} each",
        "training": f"{count(solver['steps'], 'step')}, objective {own.get('objective', fitted['objective'])}",
    }
    if own:
        facts["not stored"] = f"{', '.join(sorted(own))}: pass to NeuralEigenmap.load again"
    if about["found"] is None:
        facts["eigenvalues"] = "not computed since the last partial_fit"
    print_result(_grid(facts))
    if about["found"] is not None:
        mu = tensors["found.eigenvalues"].tolist()
        print_result(_spectrum(mu, max(1e-300, *mu, 0.0)))


def _places(n: int) -> Iterable[int]:
    return [*(2**i for i in range(n.bit_length()) if 2**i < n), n]


def _lengths(model: Eigenmap) -> Table:
    """Return the number of features needed to keep each share."""
    table = _table("to keep", "of the nearest neighbours", "of the spectrum")
    for share in (0.9, 0.95, 0.99):
        by_recall = str(model.suggest_dim(recall=share)) if model.alignment.recall else "not known"
        table.add_row(f"{share:.0%}", by_recall, str(model.suggest_dim(spectrum=share)))
    return table
