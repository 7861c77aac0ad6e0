"""`eigenmap reproduce table-5`: transfer to detection and segmentation."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Literal

from eigenmap.cli.console import number_table, print_result
from eigenmap.cli.figures.reproduce import reproduce
from eigenmap.cli.figures.reproduce_options import (
    DataOption,
    MachinesOption,
    ProcessesOption,
    RunsFolderOption,
    ScaleName,
    ScaleOption,
    SeedOption,
    check_files,
    load_runs,
    write_item,
)
from eigenmap.cli.options import OUTPUT, WHAT, Device, DeviceOption, ForceOption, JsonOption, QuietOption, option
from eigenmap.core.errors import EigenmapError

NAMES: tuple[Literal["AP50", "AP", "AP75"], ...] = ("AP50", "AP", "AP75")


@reproduce.command(
    "table-5",
    epilog="""
Examples:

[cyan]  eigenmap reproduce table-5 --scale tiny[/cyan]

[cyan]  eigenmap reproduce table-5 --scale paper --data IMAGENET/ --detection COCO/ --devices 8 --runs runs/[/cyan]
""",
)
def table_5_command(
    scale: ScaleOption = ScaleName.small,
    data: DataOption = None,
    detection: Annotated[
        Path | None,
        option(
            "--detection DIR",
            "COCO 2017 at the paper's scale; at other scales, folder for the generated set [dim](default: a temporary "
            "folder)[/dim].",
            WHAT,
        ),
    ] = None,
    detections: Annotated[
        Path | None,
        option(
            "--detections FOLDER",
            "Also write the detections of each detector, in the format of COCO's results.",
            OUTPUT,
        ),
    ] = None,
    runs_folder: RunsFolderOption = None,
    devices: ProcessesOption = 1,
    nodes: MachinesOption = 1,
    seed: SeedOption = 0,
    device: DeviceOption = Device.auto,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Fine-tune Mask R-CNN from random, supervised and self-supervised weights, as in table 5."""
    from eigenmap.data.images.released.coco import read_instances
    from eigenmap.reproduce.table_5 import table_5

    check_files(json, force=force)
    if detection is None and (devices * nodes > 1 or scale is ScaleName.paper):
        raise EigenmapError("table-5 on several processes or at the paper's scale needs --detection DIR.")
    if scale is ScaleName.paper and detection is not None:
        read_instances(detection, "val2017")  # fails before anything is trained
    runs = load_runs(
        scale, data, seed=seed, device=device, quiet=quiet, devices=devices, nodes=nodes, folder=runs_folder
    )
    with tempfile.TemporaryDirectory() as temporary:
        rows = table_5(scale.value, runs, detection or Path(temporary), out=detections)
    write_item(json, "table-5", scale, {"seed": seed, "rows": rows})
    cells = (
        [row["method"], *(f"{100 * each[name]:.1f}" for each in (row["box"], row["mask"]) for name in NAMES)]
        for row in rows
    )
    columns = ("initial weights", *NAMES, *(f"mask {name}" for name in NAMES))
    print_result(number_table("average precision, percent", columns, cells, texts=1))
