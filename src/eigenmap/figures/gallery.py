"""Grids of pictures: query results at several code lengths, and items that excite a feature.

    answers = Answers(image, "coat", {2: [Hit(picture, "coat", True), ...], 8: [...]})
    save(answer_grid([answers]), Path("figures/gallery"))
    save(feature_grid([FeatureRow("1", "0.93", [most, least])], ["largest", "smallest"]), Path("figures/exciting"))

Right and wrong results differ in colour, frame style and a mark, so that the grid can be read in grey.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eigenmap.core.errors import EigenmapError
from eigenmap.figures.style import INK, OKABE_ITO, PAPER, add_axes, new_figure, styled, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Picture = npt.NDArray[np.uint8]
"""(height, width) grey or (height, width, 3) colour."""

RIGHT, WRONG = OKABE_ITO["blue"], OKABE_ITO["vermillion"]
_INCHES = 0.42
"""Side of a picture."""
_GAP, _MARGIN = 0.12, 1.9
"""Space between pictures, and on the left for the query and the lengths, in sides of a picture."""
LARGEST = 96
"""Maximum side of a picture in pixels; more would not be visible but would make very large pages."""


@dataclass(frozen=True)
class Hit:
    """One result: picture, label, and whether it is correct (None: unknown)."""

    picture: Picture
    label: str
    right: bool | None = None


@dataclass(frozen=True)
class Answers:
    """A query and its results at each code length, nearest first."""

    picture: Picture
    label: str
    hits: Mapping[int, Sequence[Hit]]


@dataclass(frozen=True)
class FeatureRow:
    """One feature: name, remark below it, and groups of pictures (largest values, smallest values)."""

    name: str
    remark: str
    groups: Sequence[Sequence[Picture]]


def answer_grid(queries: Sequence[Answers]) -> Figure:
    """Draw one block per query: the query on the left, and one row of results per length.

    All pictures have the same size.
    """
    if not queries or not all(query.hits for query in queries):
        raise EigenmapError("Nothing to draw: give at least one query with results.")
    columns = min(2, len(queries))
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
    """Draw all pictures as one image, which is many times faster, and frames and lengths over it."""
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


def feature_grid(rows: Sequence[FeatureRow], titles: Sequence[str]) -> Figure:
    """Draw one row per feature and one titled panel per group of pictures."""
    if not rows or not all(pictures for row in rows for pictures in row.groups):
        raise EigenmapError("Nothing to draw: give at least one feature with pictures.")
    widths = [max(len(row.groups[group]) for row in rows) for group in range(len(titles))]
    inches = [_INCHES * (width * (1 + _GAP) + (_MARGIN if group == 0 else 0.4)) for group, width in enumerate(widths)]
    figure = new_figure(sum(inches) + 0.3, _INCHES * len(rows) * (1 + _GAP) + 0.5)
    with styled():
        grid = figure.add_gridspec(1, len(titles), width_ratios=inches)
    for group, title in enumerate(titles):
        axes = add_axes(figure, grid[0, group], title=title)
        axes.set_axis_off()
        _feature_block(axes, rows, group, widths[group], named=group == 0)
    return figure


def _feature_block(axes: Axes, rows: Sequence[FeatureRow], group: int, width: int, *, named: bool) -> None:
    side = len(rows[0].groups[0][0])
    pitch = round(side * (1 + _GAP))
    left = round(side * (_MARGIN if named else 0.4))
    sheet = np.zeros((len(rows) * pitch, left + width * pitch, 4), np.uint8)
    for number, row in enumerate(rows):
        y = number * pitch
        for place, picture in enumerate(row.groups[group]):
            _put(sheet, picture, left + place * pitch, y)
        if named:
            write_text(
                axes, left - side / 4, y + 0.36 * side, row.name, ha="right", va="center", color=INK, fontsize=10
            )
            write_text(axes, left - side / 4, y + 0.76 * side, row.remark, ha="right", va="center", fontsize=7.5)
    axes.imshow(sheet, interpolation="nearest")
    axes.set_xlim(-1, sheet.shape[1])
    axes.set_ylim(sheet.shape[0], -2)


def picture_of(pixels: Picture) -> Picture:
    """Convert pixels (channels, height, width) to a picture, no larger than figures need.

    >>> picture_of(np.zeros((1, 8, 8), np.uint8)).shape, picture_of(np.zeros((3, 224, 224), np.uint8)).shape
    ((8, 8), (96, 96, 3))
    """
    from PIL import Image

    picture = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    if max(picture.shape[:2]) <= LARGEST:
        return picture
    small = Image.fromarray(picture)
    small.thumbnail((LARGEST, LARGEST), Image.Resampling.LANCZOS)
    return np.asarray(small)


def _put(sheet: Picture, picture: Picture, x: int, y: int) -> None:
    height, width = picture.shape[:2]
    area = sheet[y : y + height, x : x + width]
    area[..., :3] = picture[..., None] if picture.ndim == 2 else picture
    area[..., 3] = 255


def _frame(axes: Axes, hit: Hit, x: float, y: float, side: int) -> None:
    from matplotlib.patches import Rectangle

    if hit.right is None:
        return
    wrong = not hit.right
    frame = Rectangle((x, y), side, side, fill=False, edgecolor=WRONG if wrong else RIGHT, zorder=3)
    frame.set_linewidth(1.6 if wrong else 1.1)
    frame.set_linestyle((0, (2.0, 1.2)) if wrong else "-")
    axes.add_patch(frame)
    if wrong:
        corner = ([x + 0.86 * side], [y + 0.14 * side])
        axes.plot(*corner, marker="s", markersize=6, color=WRONG, zorder=4, linestyle="none")
        axes.plot(*corner, marker="x", markersize=3.2, color=PAPER, zorder=5, linestyle="none")
