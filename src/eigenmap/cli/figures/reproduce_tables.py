"""`eigenmap reproduce table-2`, `table-3`, `table-4` and `tables-7-8`: sweeps of linear probes and short codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from eigenmap.cli.console import log_function, number_table, print_result, progress_bar
from eigenmap.cli.figures.reproduce import reproduce
from eigenmap.cli.figures.reproduce_options import (
    DataOption,
    DryRunOption,
    MachinesOption,
    ProcessesOption,
    RunsFolderOption,
    ScaleName,
    ScaleOption,
    SearchOption,
    SeedOption,
    check_files,
    load_runs,
    percent,
    write_item,
)
from eigenmap.cli.options import HOW, Device, DeviceOption, ForceOption, JsonOption, QuietOption, option

if TYPE_CHECKING:
    from rich.table import Table

    from eigenmap.reproduce.runs import Runs
    from eigenmap.reproduce.sweeps import Run, SweepRow

EXAMPLE = """
Example:

[cyan]  eigenmap reproduce {item} --scale small --data CIFAR10/ --runs runs/ --json {item}.json[/cyan]
"""


def _probe_command(item: str, what: str) -> Callable[..., None]:
    """Register a table of linear probes; all three have the same options."""

    def command(
        scale: ScaleOption = ScaleName.small,
        data: DataOption = None,
        runs_folder: RunsFolderOption = None,
        dry_run: DryRunOption = False,
        devices: ProcessesOption = 1,
        nodes: MachinesOption = 1,
        seed: SeedOption = 0,
        device: DeviceOption = Device.auto,
        json: JsonOption = None,
        force: ForceOption = False,
        quiet: QuietOption = False,
    ) -> None:
        from eigenmap.reproduce import sweeps

        planned: dict[str, tuple[Callable[..., list[Run]], Callable[..., list[SweepRow]]]] = {
            "table-2": (sweeps.table_2_runs, sweeps.table_2),
            "table-3": (sweeps.table_3_runs, sweeps.table_3),
            "table-4": (sweeps.table_4_runs, sweeps.table_4),
        }
        list_runs, measure = planned[item]
        check_files(json, force=force)
        if dry_run:
            from eigenmap.cli.figures.reproduce_dry_run import print_dry_run

            recipes = [run.recipe(scale.value) for run in list_runs(scale.value)]
            print_dry_run(item, scale, data, recipes, device, devices * nodes, json, log_function(quiet))
            return
        runs = load_runs(
            scale, data, seed=seed, device=device, quiet=quiet, devices=devices, nodes=nodes, folder=runs_folder
        )
        rows = measure(scale.value, runs)
        write_item(json, item, scale, {"seed": seed, "rows": rows})
        print_result(sweep_table(rows, runs))

    command.__doc__ = what
    reproduce.command(item, epilog=EXAMPLE.format(item=item))(command)
    return command


table_2_command = _probe_command(
    "table-2",
    "Probe SCL, Barlow Twins and the paper's form at four batch sizes, as in table 2.\n\n"
    "Barlow Twins runs with three strengths of its penalty; one per batch size is chosen on held-out images.",
)
table_3_command = _probe_command(
    "table-3",
    "Probe SCL, Barlow Twins and the paper's form with projectors of three widths, as in table 3.\n\n"
    "Then the paper's form without a projector, with a linear one, and without BatchNorm, as in its appendix.",
)
table_4_command = _probe_command(
    "table-4", "Probe SimSiam and the paper's form after three lengths of training, as in table 4."
)


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


@reproduce.command("tables-7-8", epilog=EXAMPLE.format(item="tables-7-8"))
def tables_7_8_command(
    scale: ScaleOption = ScaleName.small,
    data: DataOption = None,
    search: SearchOption = None,
    top: Annotated[int, option("--top M", "Number of results that count.", HOW, shown=True, min=1)] = 1000,
    runs_folder: RunsFolderOption = None,
    dry_run: DryRunOption = False,
    devices: ProcessesOption = 1,
    nodes: MachinesOption = 1,
    seed: SeedOption = 0,
    device: DeviceOption = Device.auto,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare codes of 4 to 32 features: the paper's ordered form, and SCL with PCA, as in tables 7 and 8."""
    from eigenmap.reproduce.retrieval import retrieval_recipe
    from eigenmap.reproduce.searches import check_searches, load_searches
    from eigenmap.reproduce.tables_7_8 import tables_7_8

    check_files(json, force=force)
    lists = check_searches(scale.value, search or [])
    if dry_run:
        from eigenmap.cli.figures.reproduce_dry_run import print_dry_run

        recipes = [retrieval_recipe(method, scale.value) for method in ("ordered", "scl")]
        print_dry_run(
            "tables-7-8", scale, data, recipes, device, devices * nodes, json, log_function(quiet), searches=lists
        )
        return
    runs = load_runs(
        scale, data, seed=seed, device=device, quiet=quiet, devices=devices, nodes=nodes, folder=runs_folder
    )
    with progress_bar("reading", quiet) as reading:
        searches = load_searches(scale.value, runs.sets, search or [], top, reading)
    scores = tables_7_8(scale.value, runs, searches)
    write_item(json, "tables-7-8", scale, {"seed": seed, "scores": scores})
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
