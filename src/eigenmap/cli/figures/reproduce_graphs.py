"""`eigenmap reproduce table-6`: the paper's comparison on graphs."""

from __future__ import annotations

from typing import Annotated

from eigenmap.cli.console import log_function, number_table, print_result
from eigenmap.cli.figures.reproduce import reproduce
from eigenmap.cli.figures.reproduce_options import DryRunOption, ScaleName, SeedOption, write_item
from eigenmap.cli.options import (
    HOW,
    WHAT,
    Device,
    DeviceOption,
    ForceOption,
    JsonOption,
    QuietOption,
    check_device,
    option,
)
from eigenmap.cli.outputs import check_files, write_json_output

GraphScaleOption = Annotated[
    ScaleName,
    option(
        "--scale",
        "paper: the published run; small: a shorter run for graphs of some thousand nodes; tiny: a generated graph.",
        WHAT,
        shown=True,
    ),
]
GraphOption = Annotated[str | None, option("--data GRAPH", "A graph with labels, or ogb:ogbn-products.", WHAT)]
RunsOption = Annotated[
    int, option("--runs N", "Splits, or draws of the labels, to average over.", HOW, shown=True, min=1)
]


@reproduce.command(
    "table-6",
    epilog="""
Example:

[cyan]  eigenmap reproduce table-6 --scale small --data computers.npz --json table-6.json[/cyan]
""",
)
def table_6_command(
    scale: GraphScaleOption = ScaleName.small,
    data: GraphOption = None,
    runs: RunsOption = 10,
    dry_run: DryRunOption = False,
    seed: SeedOption = 0,
    device: DeviceOption = Device.auto,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train on a graph and probe the encoder linearly with 100, 10 and 1 % of the labels, as in table 6."""
    from eigenmap.reproduce import load_labelled_graph, table_6

    check_files(force, json)
    check_device(device)
    graph = load_labelled_graph(scale.value, data)
    if dry_run:
        from eigenmap.cli.figures.reproduce_dry_run import hours, print_rows, seconds_of
        from eigenmap.reproduce.dry_run_more import graph_rows

        dry = graph_rows(scale.value, graph, device.value, seconds_of(scale) / 3)
        print_rows(dry, 1, "nodes")
        write_item(json, "table-6", scale, {"nodes": len(graph), "hours": hours(dry), "rows": dry})
        return
    rows = table_6(scale.value, graph, runs=runs, seed=seed, device=device.value, say=log_function(quiet))
    if json is not None:
        write_json_output(json, {"item": "table-6", "scale": scale.value, "seed": seed, "runs": runs, "rows": rows})
    columns = ["method", *(f"{100 * share:g} % of labels" for share in dict.fromkeys(row["share"] for row in rows))]
    cells: dict[str, list[str]] = {}
    for row in rows:
        score = "collapsed"
        if row["accuracy"] is not None and row["spread"] is not None:
            score = f"{100 * row['accuracy']:.1f} ± {100 * row['spread']:.1f}"
        cells.setdefault(row["method"], [row["method"]]).append(score)
    print_result(number_table(f"{len(graph):,} nodes, percent of the test nodes", columns, cells.values(), texts=1))
