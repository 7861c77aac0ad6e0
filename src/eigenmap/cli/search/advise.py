"""`eigenmap advise` and `eigenmap duplicates`: measurements on the items of an index."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eigenmap.cli.app import USE, app
from eigenmap.cli.console import log_function, note, number_table, print_result, printable, progress_bar
from eigenmap.cli.options import (
    HOW,
    OUTPUT,
    WHAT,
    DimOption,
    ForceOption,
    JsonOption,
    QuietOption,
    TableOption,
    argument,
    option,
)
from eigenmap.cli.outputs import check_files, figure_files, write_json_output
from eigenmap.cli.search import database
from eigenmap.core.errors import EigenmapError
from eigenmap.core.words import count

if TYPE_CHECKING:
    from eigenmap.search.advisor import Advice
    from eigenmap.search.duplicates import Group

AdvisedArgument = Annotated[
    str,
    argument("INDEX", "An index written by `eigenmap index`, a model written by `eigenmap fit vectors`, or vectors."),
]
IndexArgument = Annotated[
    str, argument("INDEX", "An index written by `eigenmap index`: a folder, or postgresql://... Or a file of vectors.")
]

_OF_INDEXES = {
    "recall": "--recall",
    "bytes_per_item": "--bytes-per-item",
    "top": "--top",
    "queries": "--queries",
    "price": "--price-per-gb",
    "plot": "--plot",
    "table": "--table",
}
"""Options that say how the items of an index are measured; a model was measured when it was fitted."""


@app.command(
    rich_help_panel=USE,
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap advise photos.index[/cyan]

[cyan]  eigenmap advise photos.index --recall 0.95 --items 1e9 --json advice.json --plot advice[/cyan]

[cyan]  eigenmap advise runs/text --keep 0.95[/cyan]
""",
)
def advise(
    ctx: typer.Context,
    index: AdvisedArgument,
    keep: Annotated[
        float | None,
        option(
            "--keep SHARE",
            "For a model of vectors: share of the longest code's relevance, on held-out pairs, that must be kept "
            "[dim](default: 0.95)[/dim].",
            WHAT,
        ),
    ] = None,
    recall: Annotated[
        float, option("--recall SHARE", "Share of the full-length results that must be found.", WHAT, shown=True)
    ] = 0.99,
    bytes_per_item: Annotated[
        int | None, option("--bytes-per-item N", "Maximum number of stored bytes per item.", WHAT)
    ] = None,
    top: Annotated[int, option("--top -n N", "Results per query.", HOW, shown=True)] = 10,
    queries: Annotated[int, option("--queries N", "Number of stored items used as queries.", HOW, shown=True)] = 200,
    items: Annotated[
        str | None, option("--items N", "Also estimate the cost for this many items, for example 1e9.", WHAT)
    ] = None,
    price: Annotated[
        float | None, option("--price-per-gb X", "Price of a gigabyte, to estimate the cost of the items.", WHAT)
    ] = None,
    plot: Annotated[
        Path | None, option("--plot FILE", "Also draw recall by length, as FILE.svg and FILE.png.", OUTPUT)
    ] = None,
    table: TableOption = None,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Recommend a length or funnel for searching, measured on your own items.

    Recall is the share of the exact full-length results that a setting finds. `eigenmap search --dim auto` uses the
    last recommendation.
    """
    stem, figures = (None, []) if plot is None else figure_files(plot)
    check_files(force, json, *figures, reads=[index])
    if price is not None and not (math.isfinite(price) and price >= 0):
        raise EigenmapError(f"--price-per-gb must be a number of at least 0, not {price}")
    scale = _items(items)
    if _is_run(index):
        _refuse_options_of_indexes(ctx, index)
        _advise_length(Path(index), 0.95 if keep is None else keep, scale, json)
        return
    if keep is not None:
        raise EigenmapError(f"--keep needs a model of vectors, but {index} is not one; use --recall for an index.")
    with database.codes_at(index, table) as opened:
        advice = opened.advise(recall, bytes_per_item=bytes_per_item, top=top, queries=queries, say=log_function(quiet))
    at = advice.at(scale if scale is not None else advice.items)
    if price is not None:
        at["price"] = price * at["stored_bytes"] / 1e9
    if json is not None:
        write_json_output(
            json,
            {"measured": "search settings", "index": database.without_password(index), **advice.as_json(), "at": at},
        )
    if stem is not None:
        from eigenmap.figures.advice_page import advice_curves
        from eigenmap.figures.style import save

        save(advice_curves(advice), stem)
    _show(advice)
    _recommend(advice, at)


def _is_run(index: str) -> bool:
    """Return whether this is the folder of a model, not of an index."""
    from eigenmap.core.addresses import is_database
    from eigenmap.description import DESCRIPTION

    return not is_database(index) and (Path(index) / DESCRIPTION).is_file()


def _refuse_options_of_indexes(ctx: typer.Context, run: str) -> None:
    from eigenmap.cli.fit.config import was_given

    given = next((option for name, option in _OF_INDEXES.items() if was_given(ctx, name)), None)
    if given is not None:
        raise EigenmapError(f"{given} is for an index, but {run} is a model; use --keep, or give an index.")


def _advise_length(run: Path, keep: float, items: float | None, json: Path | None) -> None:
    """Recommend the shortest code of a model that keeps a share of the longest code's relevance."""
    from eigenmap.cli.fit.vectors import score_table
    from eigenmap.fitting.vectors import metric_of, scores_of
    from eigenmap.linear.choice import shortest
    from eigenmap.model import Eigenmap

    model = Eigenmap.load(run)
    scores = scores_of(model)
    dim = shortest(scores["ours"], keep)
    found, most = scores["ours"][dim], scores["ours"][max(scores["ours"])]
    name = "VAMP-2" if metric_of(model) == "vamp-2" else "nDCG@10"
    if json is not None:
        told = {name: {str(d): s for d, s in each.items()} for name, each in scores.items()}
        write_json_output(
            json, {"measured": "held-out pairs", "run": str(run), "keep": keep, "dim": dim, "scores": told}
        )
    print_result(score_table(scores, metric_of(model)))
    print_result(
        f"Recommended: --dim {dim}: {name} of {found:.3f} on held-out pairs, {found / max(most, 1e-12):.1%} of the "
        f"{most:.3f} of all {model.n_components} features."
    )
    if items is not None:
        print_result(f"{items:,.0f} items: {_size(4 * dim * items)} of codes as float32.")


def _items(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        items = float(text)
    except ValueError:
        items = 0.0
    if not 1 <= items < 1e15:
        raise EigenmapError(f"--items must be a number of items, such as 1e9, not {text!r}")
    return items


def _show(advice: Advice) -> None:
    from rich.table import Table

    from eigenmap.search.advisor import funnel_text

    table = Table(
        title=f"{count(advice.items, 'item')}, {advice.queries} queries, top {advice.top}", title_justify="left"
    )
    for name, justify in (("search", "left"), ("features:kept", "left"), ("recall", "right"), ("queries/s", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for row in advice.rows:
        style = "bold" if row == advice.chosen else None
        table.add_row(
            row.name, funnel_text(row.stages), f"{row.recall:.3f}", f"{row.queries_per_second:,.0f}", style=style
        )
    print_result(table)
    rows = ([str(row.dim), f"{row.prefix:.3f}", f"{row.random:.3f}", f"{row.pca:.3f}"] for row in advice.prefixes)
    title = "recall of codes of the same length, in a sample"
    print_result(number_table(title, ("features", "first", "random", "PCA"), rows))


def _recommend(advice: Advice, at: dict[str, float]) -> None:
    from eigenmap.search.advisor import funnel_text

    chosen = advice.chosen
    stages = chosen.stages
    words = f"--dim {chosen.dim}" if len(stages) == 1 else f"--funnel {funnel_text(stages).replace(' > ', ',')}"
    faster = chosen.queries_per_second / advice.full.queries_per_second
    print_result(f"Recommended: {words}: recall {chosen.recall:.3f}, {faster:.1f} times the speed of full length.")
    for remark in advice.remarks:
        print_result(f"{remark[0].upper()}{remark[1:]}.")
    cost = f", {at['price']:,.2f} at that price" if "price" in at else ""
    print_result(
        f"{at['items']:,.0f} items: {_size(at['stored_bytes'])} of codes{cost}, {_size(at['first_stage_bytes'])} of "
        f"them read first; about {_three_digits(at['queries_per_second'])} queries per second on this machine."
    )


def _three_digits(value: float) -> str:
    """Format a number rounded to three digits, without an exponent.

    >>> _three_digits(5163.2), _three_digits(0.1234)
    ('5,160', '0.123')
    """
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"


def _size(count: float) -> str:
    """Format a number of bytes."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:,.3g} {unit}"


@app.command(
    rich_help_panel=USE,
    no_args_is_help=True,
    epilog="""
Example:

[cyan]  eigenmap duplicates photos.index --threshold 0.99 --json pairs.json[/cyan]
""",
)
def duplicates(
    index: IndexArgument,
    threshold: Annotated[float, option("--threshold COSINE", "Minimum similarity.", WHAT, shown=True)] = 0.98,
    dim: DimOption = None,
    neighbours: Annotated[int, option("--neighbours N", "Number of items compared with each.", HOW, shown=True)] = 10,
    table: TableOption = None,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """List groups of near-duplicates: items whose codes have nearly the same direction."""
    from eigenmap.search.duplicates import duplicates as find

    check_files(force, json, reads=[index])
    with database.codes_at(index, table) as opened:
        items, length = len(opened), dim or opened.n_components
        with progress_bar("comparing", quiet) as tick:
            groups = find(opened, threshold, dim, neighbours, tick)
    if json is not None:
        write_json_output(json, _groups_as_json(database.without_password(index), threshold, length, groups))
    for group in groups:
        print_result("  ".join([f"{group.lowest:.4f}", *(printable(str(name)) for name in group.ids)]))
    if not quiet:
        repeated = sum(len(group.ids) - 1 for group in groups)
        found = "1 group" if len(groups) == 1 else f"{len(groups):,} groups"
        note(f"{found}; items that repeat another: {repeated:,} of {items:,}.")


def _groups_as_json(index: str, threshold: float, dim: int, groups: list[Group]) -> dict[str, Any]:
    return {
        "index": index,
        "threshold": threshold,
        "dim": dim,
        "groups": [{"ids": group.ids, "lowest_cosine": group.lowest} for group in groups],
    }
