"""`eigenmap reproduce table-5`: transfer to detection and segmentation."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Literal

from eigenmap.cli.console import number_table, print_result
from eigenmap.cli.figures.reproduce_options import ScaleName
from eigenmap.cli.figures.reproduce_request import Request, item_command
from eigenmap.cli.options import OUTPUT, WHAT, option
from eigenmap.core.errors import EigenmapError

NAMES: tuple[Literal["AP50", "AP", "AP75"], ...] = ("AP50", "AP", "AP75")


@item_command(
    "table-5",
    "--scale tiny",
    "--scale paper --data IMAGENET/ --detection COCO/ --devices 8 --runs runs/",
)
def table_5_command(
    asked: Request,
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
) -> None:
    """Fine-tune Mask R-CNN from random, supervised and self-supervised weights, as in table 5."""
    from eigenmap.data.images.released.coco import read_instances
    from eigenmap.reproduce.table_5 import TITLES, detections_file, table_5, transfer_recipe

    scale, devices = asked.scale, asked.devices * asked.nodes
    asked.check_outputs(*(detections / detections_file(method, asked.seed) for method in TITLES if detections))
    if detection is None and (devices > 1 or scale is ScaleName.paper):
        raise EigenmapError("table-5 on several processes or at the paper's scale needs --detection DIR.")
    if scale is ScaleName.paper and detection is not None:
        for part in ("train2017", "val2017"):
            read_instances(detection, part)  # fails before anything is trained
    if asked.dry_run:
        from eigenmap.reproduce.dry_run_more import detection_row

        # An encoder trained on labels sees the same images as SCL.
        recipes = [transfer_recipe(method, scale.value) for method in ("scl", "barlow-twins", "unordered", "scl")]
        asked.estimate(
            recipes, more=lambda seconds: [detection_row(scale.value, devices, asked.device.value, seconds / 3)]
        )
        return
    runs = asked.load_runs()
    with tempfile.TemporaryDirectory() as temporary:
        rows = table_5(scale.value, runs, detection or Path(temporary), out=detections)
    asked.write({"rows": rows})
    cells = (
        [row["method"], *(f"{100 * each[name]:.1f}" for each in (row["box"], row["mask"]) for name in NAMES)]
        for row in rows
    )
    columns = ("initial weights", *NAMES, *(f"mask {name}" for name in NAMES))
    print_result(number_table("average precision, percent", columns, cells, texts=1))
