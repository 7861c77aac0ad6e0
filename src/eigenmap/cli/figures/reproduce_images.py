"""`eigenmap reproduce table-1` and `figure-retrieval`: the paper's comparisons on images."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

from eigenmap.cli.console import log_function, number_table, print_result, progress_bar
from eigenmap.cli.figures.reproduce import figure_files, reproduce
from eigenmap.cli.options import (
    HOW,
    OUTPUT,
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


class ScaleName(str, Enum):
    """Size of a run."""

    paper = "paper"
    small = "small"
    tiny = "tiny"


ScaleOption = Annotated[
    ScaleName,
    option(
        "--scale",
        "paper: ImageNet, ResNet-50; small: CIFAR-10, ResNet-18; tiny: seconds on generated images.",
        WHAT,
        shown=True,
    ),
]
DataOption = Annotated[
    Path | None,
    option("--data DIR", "ImageNet or CIFAR-10: train/ and val/ or test/ with class folders, or cifar10.npz.", WHAT),
]
SeedOption = Annotated[int, option("--seed N", "Random seed.", HOW, shown=True)]


@reproduce.command(
    "table-1",
    epilog="""
Example:

[cyan]  eigenmap reproduce table-1 --scale small --data CIFAR10/ --json table-1.json[/cyan]
""",
)
def table_1_command(
    scale: ScaleOption = ScaleName.small,
    data: DataOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = Device.auto,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train eight methods in one loop and probe their encoders linearly, as in table 1."""
    from eigenmap.reproduce import load_sets, table_1

    check_files(force, json)
    check_device(device)
    with progress_bar("reading", quiet) as reading:
        sets = load_sets(scale.value, data, reading)
    rows = table_1(scale.value, sets, seed=seed, device=device.value, say=log_function(quiet))
    if json is not None:
        write_json_output(json, {"item": "table-1", "scale": scale.value, "seed": seed, "rows": rows})
    cells = (
        [row["method"], f"{100 * row['linear']:.1f}", f"{100 * row['knn']:.1f}", f"{row['seconds']:.0f}"]
        for row in rows
    )
    title = f"{len(sets.test):,} test images, percent"
    print_result(number_table(title, ("method", "linear", "kNN", "seconds"), cells, texts=1))


@reproduce.command(
    "figure-retrieval",
    epilog="""
Example:

[cyan]  eigenmap reproduce figure-retrieval --scale small --data CIFAR10/ --out figures/retrieval[/cyan]
""",
)
def figure_retrieval_command(
    out: Annotated[Path, option("--out -o STEM", "Output: STEM.svg and STEM.png.", OUTPUT, shown=True)] = Path(
        "figures/paper-retrieval"
    ),
    scale: ScaleOption = ScaleName.small,
    data: DataOption = None,
    top: Annotated[int, option("--top M", "Number of results that count.", HOW, shown=True, min=1)] = 1000,
    seed: SeedOption = 0,
    device: DeviceOption = Device.auto,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Draw mAP against code length: the paper's ordered codes, the same without stop-gradient, and SCL.

    Ordered codes are prefixes of the projector's output; the others are random features, ten draws.
    """
    from eigenmap.figures.curves import Curve, Panel, length_curves
    from eigenmap.figures.style import save
    from eigenmap.reproduce import figure_retrieval, load_sets

    stem, files = figure_files(out)
    check_files(force, *files, json)
    check_device(device)
    with progress_bar("reading", quiet) as reading:
        sets = load_sets(scale.value, data, reading)
    scores = figure_retrieval(scale.value, sets, top=top, seed=seed, device=device.value, say=log_function(quiet))
    metric = f"map_over_found@{top}"
    curves = [
        Curve(
            key,
            name,
            {int(row["dim"]): row[metric] for row in rows},
            {int(row["dim"]): row[f"{metric}_spread"] for row in rows if f"{metric}_spread" in row},
        )
        for key, (name, rows) in zip(("ours", "random", "encoder-pca"), scores.items(), strict=True)
    ]
    title = f"{len(sets.test):,} queries, {len(sets.train):,} images"
    save(length_curves([Panel(title, f"mAP, found in the top {top:,}", curves)]), stem)
    if json is not None:
        write_json_output(json, {"item": "figure-retrieval", "scale": scale.value, "seed": seed, "scores": scores})
    for name, rows in scores.items():
        print_result(f"{name}: " + ", ".join(f"{row['dim']:.0f}: {row[metric]:.3f}" for row in rows))
    print_result(f"Figure: {', '.join(map(str, files))}")
