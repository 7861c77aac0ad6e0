"""`eigenmap reproduce table-2`, `table-3`, `table-4` and `tables-7-8`: sweeps of linear probes and short codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from eigenmap.cli.console import number_table, print_result
from eigenmap.cli.figures.reproduce_options import SearchOption, percent
from eigenmap.cli.figures.reproduce_request import Request, item_command
from eigenmap.cli.options import HOW, option

if TYPE_CHECKING:
    from rich.table import Table

    from eigenmap.reproduce.methods import Scale
    from eigenmap.reproduce.runs import Runs
    from eigenmap.reproduce.sweeps import Run, SweepRow


def _example(item: str) -> str:
    return f"--scale small --data CIFAR10/ --runs runs/ --json {item}.json"


@item_command("table-2", _example("table-2"))
def table_2_command(asked: Request) -> None:
    """Probe SCL, Barlow Twins and the paper's form at four batch sizes, as in table 2.

    Barlow Twins runs with three strengths of its penalty; one per batch size is chosen on held-out images.
    """
    from eigenmap.reproduce.sweeps import table_2, table_2_runs

    _sweep(asked, table_2_runs, table_2)


@item_command("table-3", _example("table-3"))
def table_3_command(asked: Request) -> None:
    """Probe SCL, Barlow Twins and the paper's form with projectors of three widths, as in table 3.

    Then the paper's form without a projector, with a linear one, and without BatchNorm, as in its appendix.
    """
    from eigenmap.reproduce.sweeps import table_3, table_3_runs

    _sweep(asked, table_3_runs, table_3)


@item_command("table-4", _example("table-4"))
def table_4_command(asked: Request) -> None:
    """Probe SimSiam and the paper's form after three lengths of training, as in table 4."""
    from eigenmap.reproduce.sweeps import table_4, table_4_runs

    _sweep(asked, table_4_runs, table_4)


def _sweep(
    asked: Request, list_runs: Callable[[Scale], list[Run]], measure: Callable[[Scale, Runs], list[SweepRow]]
) -> None:
    """Measure the runs of a table, or estimate their cost."""
    asked.check_outputs()
    if asked.dry_run:
        asked.estimate([run.recipe(asked.scale.value) for run in list_runs(asked.scale.value)])
        return
    runs = asked.load_runs()
    rows = measure(asked.scale.value, runs)
    asked.write({"rows": rows})
    print_result(sweep_table(rows, runs))


def sweep_table(rows: Sequence[SweepRow], runs: Runs) -> Table:
    """Return a table of probes: one line per run, with the chosen run of each search marked."""
    cells = []
    for row in rows:
        probe, strength = row["probe"], "" if row["lambda_"] is None else f"{row['lambda_']:g}"
        mark = " (chosen)" if strength and row["chosen"] else ""
        figures = [percent(value) for value in (probe["linear"], probe["knn"], probe["knn_held_out"])]
        cells.append([row["method"], row["value"], strength + mark, *figures])
    columns = ("method", "setting", "lambda", "linear", "kNN", "held-out kNN")
    return number_table(f"{len(runs.sets.test):,} test images, percent", columns, cells, texts=3)


@item_command("tables-7-8", _example("tables-7-8"))
def tables_7_8_command(
    asked: Request,
    search: SearchOption = None,
    top: Annotated[int, option("--top M", "Number of results that count.", HOW, shown=True, min=1)] = 1000,
) -> None:
    """Compare codes of 4 to 32 features: the paper's ordered form, and SCL with PCA, as in tables 7 and 8."""
    from eigenmap.reproduce.retrieval import retrieval_recipe
    from eigenmap.reproduce.searches import check_searches
    from eigenmap.reproduce.tables_7_8 import tables_7_8

    asked.check_outputs()
    lists = check_searches(asked.scale.value, search or [])
    if asked.dry_run:
        asked.estimate([retrieval_recipe(method, asked.scale.value) for method in ("ordered", "scl")], lists)
        return
    runs = asked.load_runs()
    searches = asked.load_searches(runs, search or [], top)
    scores = tables_7_8(asked.scale.value, runs, searches)
    asked.write({"scores": scores})
    for each in searches:
        rows = scores[each.name]
        title = (
            f"{each.name}: {len(each.queries):,} queries, {len(each.gallery):,} images, mAP found in top {each.top:,}"
        )
        lengths = [f"{row['dim']:.0f}" for row in max(rows.values(), key=len)]
        columns = ["code", *lengths]
        cells = (
            [name, *([f"{row[f'map_over_found@{each.top}']:.3f}" for row in scored] or ["collapsed"] * len(lengths))]
            for name, scored in rows.items()
        )
        print_result(number_table(title, columns, cells, texts=1))
