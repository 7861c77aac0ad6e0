"""Tables of `--dry-run`: memory, steps and hours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eigenmap.cli.console import number_table, print_result
from eigenmap.cli.figures.reproduce_options import ScaleName

if TYPE_CHECKING:
    from eigenmap.reproduce.dry_run import DryRow


def seconds_of(scale: ScaleName) -> float:
    """Return how long a dry run measures."""
    from eigenmap.reproduce.dry_run import MINUTE

    return MINUTE if scale is not ScaleName.tiny else 2.0


def hours(rows: Sequence[DryRow]) -> float:
    """Return the hours of all runs."""
    return sum(row["hours"] for row in rows)


def in_hours(value: float) -> str:
    """Format hours with three digits.

    >>> in_hours(0.05249), in_hours(19_437.2)
    ('0.0525', '19,437')
    """
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def print_rows(rows: Sequence[DryRow], devices: int, unit: str = "images") -> None:
    """Print memory, steps and hours of every run, and their sum."""
    cells = (
        [
            row["run"],
            f"{row['images_per_device']:,}",
            f"{row['memory_gib']:.1f} GiB",
            f"{row['steps']:,} x {row['step_seconds']:.3g}",
            in_hours(row["hours"]),
        ]
        for row in rows
    )
    columns = ("run", f"{unit} per device", "memory", "steps x seconds / 3,600", "hours")
    words = "1 device" if devices == 1 else f"{devices} devices"
    print_result(number_table(words, columns, cells, texts=1))
    print_result(f"Together {in_hours(hours(rows))} hours on {words} like this one, without reading and evaluation.")
    fewer = [row["measured_images"] for row in rows if row["measured_images"] < row["images_per_device"]]
    if fewer:
        print_result(f"A step of {fewer[0]} {unit} was measured and scaled to the {unit} per device.")
