"""`eigenmap reproduce table-1` and `figure-retrieval`: the paper's comparisons on images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eigenmap.cli.console import number_table, print_result
from eigenmap.cli.figures.reproduce_options import SearchOption, StemOption, percent
from eigenmap.cli.figures.reproduce_request import Request, item_command
from eigenmap.cli.options import HOW, WHAT, option
from eigenmap.cli.outputs import figure_files

if TYPE_CHECKING:
    from eigenmap.evaluation.retrieval import ScoreRow
    from eigenmap.figures.curves import Panel
    from eigenmap.reproduce.searches import Search


@item_command(
    "table-1",
    "--scale small --data CIFAR10/ --json table-1.json",
    "--scale paper --data IMAGENET/ --devices 8 --dry-run",
)
def table_1_command(asked: Request) -> None:
    """Train eight methods in one loop and probe their encoders linearly, as in table 1."""
    from eigenmap.reproduce import recipe_of
    from eigenmap.reproduce.table_1 import TABLE_1, probe_rows

    asked.check_outputs()
    if asked.dry_run:
        asked.estimate([recipe_of(method, asked.scale.value) for method in TABLE_1])
        return
    runs = asked.load_runs()
    rows = probe_rows(asked.scale.value, runs)
    asked.write({"rows": rows})
    cells = ([row["method"], percent(row["linear"]), percent(row["knn"]), f"{row['seconds']:.0f}"] for row in rows)
    title = f"{len(runs.sets.test):,} test images, percent"
    print_result(number_table(title, ("method", "linear", "kNN", "seconds"), cells, texts=1))


@item_command(
    "figure-retrieval",
    "--scale small --data CIFAR10/ --out figures/retrieval",
    "--scale paper --data IMAGENET/ --search coco=COCO/ --devices 8",
)
def figure_retrieval_command(
    asked: Request,
    out: StemOption = Path("figures/paper-retrieval"),
    search: SearchOption = None,
    small_k: Annotated[
        bool, option("--small-k", "Use the variant with 128 features and 8,192 hidden units.", WHAT, shown=True)
    ] = False,
    top: Annotated[
        int, option("--top M", "Number of results that count when searching for test images.", HOW, shown=True, min=1)
    ] = 1000,
) -> None:
    """Draw mAP against code length: the paper's ordered codes, the same without stop-gradient, and SCL.

    Ordered codes are prefixes of the projector's output; the others use random features, averaged over ten draws.
    """
    from eigenmap.core.processes import is_first_process
    from eigenmap.figures.curves import length_curves
    from eigenmap.figures.style import save
    from eigenmap.reproduce.retrieval import COMPARED, retrieval_recipe, retrieval_scores
    from eigenmap.reproduce.searches import check_searches

    stem, files = figure_files(out)
    asked.check_outputs(*files)
    lists = check_searches(asked.scale.value, search or [])
    if asked.dry_run:
        asked.estimate([retrieval_recipe(method, asked.scale.value, small_k) for method in COMPARED], lists)
        return
    runs = asked.load_runs()
    searches = asked.load_searches(runs, search or [], top)
    scores = retrieval_scores(asked.scale.value, runs, searches, small_k)
    if is_first_process():
        save(length_curves([panel for each in searches for panel in _panels(each, scores[each.name])]), stem)
    content: dict[str, object] = {"small_k": small_k, "sets": scores}
    if len(searches) == 1:
        content["scores"] = scores[searches[0].name]
    asked.write(content)
    for each in searches:
        metric = f"map_over_found@{each.top}"
        for name, rows in scores[each.name].items():
            found = ", ".join(f"{row['dim']:.0f}: {row[metric]:.3f}" for row in rows)
            print_result(f"{name}: {found or 'training collapsed'}")
    print_result(f"Figure: {', '.join(map(str, files))}")


def _panels(search: Search, scores: Mapping[str, Sequence[ScoreRow]]) -> list[Panel]:
    """Return the panels of a set: mAP and precision by length, one curve per method."""
    from eigenmap.figures.curves import Curve, Panel

    about = f"{search.name}: {len(search.queries):,} queries, {len(search.gallery):,} images"
    panels = []
    for metric, title in (
        (f"map_over_found@{search.top}", "mAP, found in"),
        (f"precision@{search.top}", "precision in"),
    ):
        curves = [
            Curve(
                key,
                name,
                {int(row["dim"]): row[metric] for row in rows},
                {int(row["dim"]): row[f"{metric}_spread"] for row in rows if f"{metric}_spread" in row},
            )
            for key, (name, rows) in zip(("ours", "random", "encoder-pca"), scores.items(), strict=True)
            if rows
        ]
        panels.append(Panel(about, f"{title} the top {search.top:,}", curves))
    return panels
