"""What a query finds at different code lengths, as a grid of pictures.

    answers = Answers(image, "coat", {2: [Hit(picture, "coat", True), ...], 8: [...]})
    save(answer_grid([answers]), Path("figures/gallery"))

Right and wrong differ in colour, in the line of the frame and in a mark, so that the grid can be read in grey.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eigenmap.errors import EigenmapError
from eigenmap.figures.style import INK, OKABE_ITO, PAPER, add_axes, new_figure, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Picture = npt.NDArray[np.uint8]
"""(height, width) grey or (height, width, 3) colour."""

RIGHT, WRONG = OKABE_ITO["blue"], OKABE_ITO["vermillion"]
_INCHES = 0.42
"""Side of a picture."""
_GAP, _MARGIN = 0.12, 1.9
"""Room between pictures, and at the left for the query and the lengths, in sides of a picture."""


@dataclass(frozen=True)
class Hit:
    """One result: its picture, what it shows, and whether that is what was asked for."""

    picture: Picture
    label: str
    right: bool


@dataclass(frozen=True)
class Answers:
    """A query, and the results at each code length, nearest first."""

    picture: Picture
    label: str
    hits: Mapping[int, Sequence[Hit]]


def answer_grid(queries: Sequence[Answers], columns: int = 2) -> Figure:
    """One block a query: the query at the left, below each other the results at each length.

    All pictures have one size.
    """
    if not queries or not all(query.hits for query in queries):
        raise EigenmapError("There is nothing to draw: give at least one query with results.")
    columns = min(columns, len(queries))
    rows = -(-len(queries) // columns)
    lengths = max(len(query.hits) for query in queries)
    results = max(len(hits) for query in queries for hits in query.hits.values())
    width = _INCHES * (results * (1 + _GAP) + _MARGIN)
    height = _INCHES * lengths * (1 + _GAP) + 0.45
    figure = new_figure(columns * width + 0.3, rows * height + 0.2)
    for number, query in enumerate(queries, start=1):
        axes = add_axes(figure, (rows, columns, number), title=f"query: {query.label}")
        axes.set_axis_off()
        _block(axes, query, lengths, results)
    return figure


def _block(axes: Axes, query: Answers, lengths: int, results: int) -> None:
    """Draw all pictures as one image, which is many times as fast, and frames and lengths over it."""
    side = len(query.picture)
    pitch = round(side * (1 + _GAP))
    left = round(side * _MARGIN)
    sheet = np.zeros((lengths * pitch, left + results * pitch, 4), np.uint8)  # transparent
    _put(sheet, query.picture, 0, 0)
    for row, (length, hits) in enumerate(query.hits.items()):
        y = row * pitch
        write_text(axes, left - side / 6, y + side / 2, f"{length}", ha="right", va="center", color=INK)
        for place, hit in enumerate(hits):
            x = left + place * pitch
            _put(sheet, hit.picture, x, y)
            _frame(axes, hit, x - 0.5, y - 0.5, side)
    axes.imshow(sheet, interpolation="nearest")
    axes.set_xlim(-1, sheet.shape[1])
    axes.set_ylim(sheet.shape[0], -2)


def _put(sheet: Picture, picture: Picture, x: int, y: int) -> None:
    height, width = picture.shape[:2]
    area = sheet[y : y + height, x : x + width]
    area[..., :3] = picture[..., None] if picture.ndim == 2 else picture
    area[..., 3] = 255


def _frame(axes: Axes, hit: Hit, x: float, y: float, side: int) -> None:
    from matplotlib.patches import Rectangle

    frame = Rectangle((x, y), side, side, fill=False, edgecolor=RIGHT if hit.right else WRONG, zorder=3)
    frame.set_linewidth(1.1 if hit.right else 1.6)
    frame.set_linestyle("-" if hit.right else (0, (2.0, 1.2)))
    axes.add_patch(frame)
    if not hit.right:
        corner = ([x + 0.86 * side], [y + 0.14 * side])
        axes.plot(*corner, marker="s", markersize=6, color=WRONG, zorder=4, linestyle="none")
        axes.plot(*corner, marker="x", markersize=3.2, color=PAPER, zorder=5, linestyle="none")
