"""`--dry-run` of the items that train networks: their estimated cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eigenmap.cli.console import number_table, print_result
from eigenmap.cli.figures.reproduce_options import ScaleName, write_item
from eigenmap.cli.options import Device, check_device
from eigenmap.core.logging import LogFunction

if TYPE_CHECKING:
    from eigenmap.recipes import Recipe


def print_dry_run(
    item: str,
    scale: ScaleName,
    data: Path | None,
    recipes: Sequence[Recipe],
    device: Device,
    devices: int,
    json: Path | None,
    say: LogFunction,
) -> None:
    """Check the data, measure for a minute, and print memory, steps and hours with their arithmetic."""
    from eigenmap.reproduce.dry_run import MINUTE, dry_run, find_data

    check_device(device)
    found = find_data(scale.value, data)
    print_result(f"Data: {found.in_words()}.")
    seconds = MINUTE if scale is not ScaleName.tiny else 2.0
    rows = dry_run(recipes, found.train, devices, device.value, seconds, say)
    cells = (
        [
            row["run"],
            f"{row['images_per_device']:,}",
            f"{row['memory_gib']:.1f} GiB",
            f"{row['steps']:,} x {row['step_seconds']:.3g}",
            f"{row['hours']:.3g}",
        ]
        for row in rows
    )
    columns = ("run", "images per device", "memory", "steps x seconds / 3,600", "hours")
    print_result(number_table(f"{devices} devices", columns, cells, texts=1))
    total = sum(row["hours"] for row in rows)
    print_result(f"Together {total:.3g} hours on {devices} devices like this one, without reading and evaluation.")
    if any(row["measured_images"] < row["images_per_device"] for row in rows):
        print_result(f"A step of {rows[0]['measured_images']} images was measured and scaled to the images per device.")
    write_item(json, item, scale, {"devices": devices, "data": found.counts, "hours": total, "rows": rows})
