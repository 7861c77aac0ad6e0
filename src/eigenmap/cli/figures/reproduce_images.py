"""`eigenmap reproduce table-1` and `figure-retrieval`: the paper's comparisons on images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from eigenmap.cli.console import log_function, number_table, print_result, progress_bar
from eigenmap.cli.figures.reproduce import figure_files, reproduce
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
from eigenmap.cli.options import (
    HOW,
    OUTPUT,
    WHAT,
    Device,
    DeviceOption,
    ForceOption,
    JsonOption,
    QuietOption,
    option,
)


@reproduce.command(
    "table-1",
    epilog="""
Examples:

[cyan]  eigenmap reproduce table-1 --scale small --data CIFAR10/ --json table-1.json[/cyan]

[cyan]  eigenmap reproduce table-1 --scale paper --data IMAGENET/ --devices 8 --dry-run[/cyan]
""",
)
def table_1_command(
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
    """Train eight methods in one loop and probe their encoders linearly, as in table 1."""
    from eigenmap.reproduce import recipe_of
    from eigenmap.reproduce.table_1 import TABLE_1, probe_rows

    check_files(json, force=force)
    if dry_run:
        from eigenmap.cli.figures.reproduce_dry_run import print_dry_run

        recipes = [recipe_of(method, scale.value) for method in TABLE_1]
        print_dry_run("table-1", scale, data, recipes, device, devices * nodes, json, log_function(quiet))
        return
    runs = load_runs(
        scale, data, seed=seed, device=device, quiet=quiet, devices=devices, nodes=nodes, folder=runs_folder
    )
    rows = probe_rows(scale.value, runs)
    write_item(json, "table-1", scale, {"seed": seed, "rows": rows})
    cells = ([row["method"], percent(row["linear"]), percent(row["knn"]), f"{row['seconds']:.0f}"] for row in rows)
    title = f"{len(runs.sets.test):,} test images, percent"
    print_result(number_table(title, ("method", "linear", "kNN", "seconds"), cells, texts=1))


@reproduce.command(
    "figure-retrieval",
    epilog="""
Examples:

[cyan]  eigenmap reproduce figure-retrieval --scale small --data CIFAR10/ --out figures/retrieval[/cyan]

[cyan]  eigenmap reproduce figure-retrieval --scale paper --data IMAGENET/ --search coco=COCO/ --devices 8[/cyan]
""",
)
def figure_retrieval_command(
    out: Annotated[Path, option("--out -o STEM", "Output: STEM.svg and STEM.png.", OUTPUT, shown=True)] = Path(
        "figures/paper-retrieval"
    ),
    scale: ScaleOption = ScaleName.small,
    data: DataOption = None,
    search: SearchOption = None,
    small_k: Annotated[
        bool, option("--small-k", "Use the variant with 128 features and 8,192 hidden units.", WHAT, shown=True)
    ] = False,
    top: Annotated[
        int, option("--top M", "Number of results that count when searching for test images.", HOW, shown=True, min=1)
    ] = 1000,
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
    """Draw mAP against code length: the paper's ordered codes, the same without stop-gradient, and SCL.

    Ordered codes are prefixes of the projector's output; the others use random features, averaged over ten draws.
    """
    from eigenmap.core.processes import is_first_process
    from eigenmap.figures.curves import Curve, Panel, length_curves
    from eigenmap.figures.style import save
    from eigenmap.reproduce.retrieval import COMPARED, retrieval_recipe, retrieval_scores
    from eigenmap.reproduce.searches import check_searches, load_searches

    stem, files = figure_files(out)
    check_files(*files, json, force=force)
    lists = check_searches(scale.value, search or [])
    if dry_run:
        from eigenmap.cli.figures.reproduce_dry_run import print_dry_run

        recipes = [retrieval_recipe(method, scale.value, small_k) for method in COMPARED]
        say = log_function(quiet)
        print_dry_run("figure-retrieval", scale, data, recipes, device, devices * nodes, json, say, searches=lists)
        return
    runs = load_runs(
        scale, data, seed=seed, device=device, quiet=quiet, devices=devices, nodes=nodes, folder=runs_folder
    )
    with progress_bar("reading", quiet) as reading:
        searches = load_searches(scale.value, runs.sets, search or [], top, reading)
    scores = retrieval_scores(scale.value, runs, searches, small_k)
    panels = []
    for each in searches:
        for metric, title in (
            (f"map_over_found@{each.top}", "mAP, found in"),
            (f"precision@{each.top}", "precision in"),
        ):
            curves = [
                Curve(
                    key,
                    name,
                    {int(row["dim"]): row[metric] for row in rows},
                    {int(row["dim"]): row[f"{metric}_spread"] for row in rows if f"{metric}_spread" in row},
                )
                for key, (name, rows) in zip(("ours", "random", "encoder-pca"), scores[each.name].items(), strict=True)
                if rows
            ]
            about = f"{each.name}: {len(each.queries):,} queries, {len(each.gallery):,} images"
            panels.append(Panel(about, f"{title} the top {each.top:,}", curves))
    if is_first_process():
        save(length_curves(panels), stem)
    content: dict[str, object] = {"seed": seed, "small_k": small_k, "sets": scores}
    if len(searches) == 1:
        content["scores"] = scores[searches[0].name]
    write_item(json, "figure-retrieval", scale, content)
    for each in searches:
        metric = f"map_over_found@{each.top}"
        for name, rows in scores[each.name].items():
            found = ", ".join(f"{row['dim']:.0f}: {row[metric]:.3f}" for row in rows)
            print_result(f"{name}: {found or 'training collapsed'}")
    print_result(f"Figure: {', '.join(map(str, files))}")
