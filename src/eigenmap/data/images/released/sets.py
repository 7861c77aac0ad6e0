"""The four sets that the paper searches, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.released import coco, mirflickr, nus_wide, voc
from eigenmap.data.images.released.layout import Layout, Released


@dataclass(frozen=True)
class ReleasedSet:
    """A released set: its reader and layout, the number of results that count in the paper, and its size."""

    read: Callable[[Path], Released]
    layout: Layout
    top: int
    images: tuple[int, int]
    """Number of images in the released gallery and queries, including those without a label."""


RELEASED: dict[str, ReleasedSet] = {
    "coco": ReleasedSet(coco.read_coco, coco.LAYOUT, 5000, (118_287, 5_000)),
    "nus-wide": ReleasedSet(nus_wide.read_nus_wide, nus_wide.LAYOUT, 5000, (161_789, 107_859)),
    "voc2012": ReleasedSet(voc.read_voc, voc.LAYOUT, 100, (5_717, 5_823)),
    "mirflickr": ReleasedSet(mirflickr.read_mirflickr, mirflickr.LAYOUT, 100, (23_000, 2_000)),
}


def read_released(name: str, folder: Path) -> Released:
    """Read the lists of a set; raise with its expected layout if something is missing."""
    if name not in RELEASED:
        raise EigenmapError(f"Unknown set {name!r}: choose one of {', '.join(RELEASED)}.")
    if not folder.is_dir():
        layout = RELEASED[name].layout
        raise EigenmapError(
            f"The folder {folder} does not exist: it must contain {layout.name} as released, with {layout.expected}."
        )
    return RELEASED[name].read(folder)
