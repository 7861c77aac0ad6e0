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
_LABEL_WIDTH = 1.9
_GAP = 0.12


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
    """One block a query: the query at the left, below each other the results at each length."""
    if not queries or not all(query.hits for query in queries):
        raise EigenmapError("There is nothing to draw: give at least one query with results.")
    columns = min(columns, len(queries))
    rows = -(-len(queries) // columns)
    lengths, results = _shape(queries)
    scale = 0.42
    width = scale * (results * (1 + _GAP) + _LABEL_WIDTH)
    height = scale * lengths * (1 + _GAP) + 0.45
    figure = new_figure(columns * width + 0.3, rows * height + 0.2)
    for number, query in enumerate(queries, start=1):
        axes = add_axes(figure, (rows, columns, number), title=f"query: {query.label}")
        _block(axes, query)
        axes.set_xlim(-_LABEL_WIDTH, results * (1 + _GAP))
        axes.set_ylim(lengths * (1 + _GAP), -_GAP)
    return figure


def _shape(queries: Sequence[Answers]) -> tuple[int, int]:
    """The most lengths and the most results of any query."""
    return (
        max(len(query.hits) for query in queries),
        max(len(hits) for query in queries for hits in query.hits.values()),
    )


def _block(axes: Axes, query: Answers) -> None:
    axes.set_axis_off()
    axes.set_aspect("equal")
    _picture(axes, query.picture, -_LABEL_WIDTH, 0.0)
    for row, (length, hits) in enumerate(query.hits.items()):
        y = row * (1 + _GAP)
        write_text(axes, -0.18, y + 0.5, f"{length}", ha="right", va="center", color=INK)
        for place, hit in enumerate(hits):
            _hit(axes, hit, place * (1 + _GAP), y)


def _hit(axes: Axes, hit: Hit, x: float, y: float) -> None:
    from matplotlib.patches import Rectangle

    _picture(axes, hit.picture, x, y)
    axes.add_patch(
        Rectangle(
            (x, y),
            1,
            1,
            fill=False,
            edgecolor=RIGHT if hit.right else WRONG,
            linewidth=1.1 if hit.right else 1.6,
            linestyle="-" if hit.right else (0, (2.0, 1.2)),
            zorder=3,
        )
    )
    if not hit.right:
        axes.plot([x + 0.84], [y + 0.16], marker="s", markersize=6, color=WRONG, zorder=4, linestyle="none")
        axes.plot([x + 0.84], [y + 0.16], marker="x", markersize=3.2, color=PAPER, zorder=5, linestyle="none")


def _picture(axes: Axes, picture: Picture, x: float, y: float) -> None:
    axes.imshow(
        picture,
        extent=(x, x + 1, y + 1, y),
        cmap="gray" if picture.ndim == 2 else None,
        vmin=0,
        vmax=255,
        interpolation="nearest",
    )
