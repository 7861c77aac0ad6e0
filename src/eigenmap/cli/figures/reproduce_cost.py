"""`eigenmap reproduce test-cost`: the cost of classifying nodes."""

from __future__ import annotations

from typing import Annotated

from eigenmap.cli.console import log_function, number_table, print_result
from eigenmap.cli.figures.reproduce import reproduce
from eigenmap.cli.figures.reproduce_options import ScaleName, SeedOption, check_files, write_item
from eigenmap.cli.options import WHAT, Device, DeviceOption, ForceOption, JsonOption, QuietOption, check_device, option


@reproduce.command(
    "test-cost",
    epilog="""
Example:

[cyan]  eigenmap reproduce test-cost --scale small --json test-cost.json[/cyan]
""",
)
def test_cost_command(
    scale: Annotated[
        ScaleName,
        option(
            "--scale",
            "paper: OGBN-Products from --data; small: a generated graph of that size; tiny: 2,000 nodes.",
            WHAT,
            shown=True,
        ),
    ] = ScaleName.small,
    data: Annotated[str | None, option("--data GRAPH", "A graph, or ogb:ogbn-products.", WHAT)] = None,
    seed: SeedOption = 0,
    device: DeviceOption = Device.auto,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Time the classification of all nodes and of a single node, by the paper's encoder and by GCN."""
    from dataclasses import replace

    import torch

    from eigenmap.reproduce.inference_cost import SIZES, inference_cost, normalised, random_neighbours
    from eigenmap.reproduce.table_6 import dense_features, load_labelled_graph

    check_files(json, force=force)
    place, size = torch.device(check_device(device)), SIZES[scale.value]
    if scale is ScaleName.paper or data is not None:
        graph = load_labelled_graph("paper", data)
        edges = graph.walk().edges().to(place)
        x, neighbours = dense_features(graph).to(place), normalised(edges, len(graph))
        size = replace(size, nodes=len(graph), edges=edges.shape[1] // 2, features=x.shape[1])
    else:
        neighbours = random_neighbours(size, place, seed)
        x = torch.randn(size.nodes, size.features, generator=torch.Generator(place).manual_seed(seed), device=place)
    rows = inference_cost(size, place, neighbours, x, seed=seed, say=log_function(quiet))
    where = torch.cuda.get_device_name() if place.type == "cuda" else "CPU"
    write_item(json, "test-cost", scale, {"seed": seed, "nodes": size.nodes, "device": where, "rows": rows})
    columns = ("method", "all nodes", "per node of all", "one node by itself")
    cells = (
        [
            row["method"],
            f"{row['whole_set_s']:.4f} s",
            f"{1e6 * row['per_node_s']:.3f} us",
            f"{1e3 * row['one_node_s']:.3f} ms",
        ]
        for row in rows
    )
    print_result(number_table(f"{size.nodes:,} nodes, {where}", columns, cells, texts=1))
