"""Curves of quality by code length, for one or several codes.

    ours = Curve("ours", "ordered code", {2: 0.49, 8: 0.65, 128: 0.66})
    pixels = Curve("pixels", "raw pixels", {784: 0.62})
    figure = length_curves([Panel("clean", "mAP, found in the top 1,000", [ours, pixels])])
    save(figure, Path("figures/retrieval"))

Anything measured at several lengths can be drawn: mAP, precision, probe accuracy, recall.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eigenmap.core.errors import EigenmapError
from eigenmap.figures.style import add_axes, add_legend, legend_label, new_figure, series_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Curve:
    """One series: `values` by length, with an optional `spread` (standard deviation).

    `key` selects its look from `style.LOOKS`. A series with a single length is drawn as a horizontal line, and one
    without a name is left out of the legend.
    """

    key: str
    name: str
    values: Mapping[int, float]
    spread: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """One panel of a figure: title, metric, and curves."""

    title: str
    metric: str
    curves: Sequence[Curve]


def length_curves(panels: Sequence[Panel], longest: int | None = None) -> Figure:
    """Draw panels side by side; those of one metric share the vertical axis. Lengths beyond `longest` are omitted."""
    if not panels or not any(curve.values for panel in panels for curve in panel.curves):
        raise EigenmapError("Nothing to draw: give at least one curve with a value.")
    figure = new_figure(max(7.0, 4.7 * len(panels) + 0.5), 4.2)
    leaders: dict[str, Axes] = {}
    for number, panel in enumerate(panels, start=1):
        leader = leaders.get(panel.metric)
        axes = add_axes(
            figure,
            (1, len(panels), number),
            title=panel.title,
            xlabel="features kept",
            ylabel="" if leader else panel.metric,
            share_y=leader,
        )
        _length_axis(axes, panel.curves, longest)
        for spare, curve in enumerate(panel.curves):
            _draw(axes, curve, spare, longest)
        leaders.setdefault(panel.metric, axes)
    names = [curve.name for curve in panels[0].curves if curve.name]
    if names:
        add_legend(figure, figure.axes[0], columns=_columns(names, figure.get_figwidth()))
    return figure


def retrieval_curves(panels: Mapping[str, Sequence[Curve]], metric: str, longest: int | None = None) -> Figure:
    """Draw the same metric in every panel."""
    return length_curves([Panel(title, metric, curves) for title, curves in panels.items()], longest)


def _columns(names: Sequence[str], inches: float) -> int:
    """Return the number of legend columns that fit, at most three."""
    widest = 0.066 * max(map(len, names)) + 0.6
    return max(1, min(3, len(names), int(inches / widest)))


def _length_axis(axes: Axes, curves: Sequence[Curve], longest: int | None) -> None:
    """Set up a logarithmic length axis with a tick at every power of two."""
    lengths = sorted({dim for curve in curves if len(curve.values) > 1 for dim in _kept(curve, longest)}) or [1]
    axes.set_xscale("log", base=2)
    ticks = [dim for dim in lengths if dim & (dim - 1) == 0] or lengths
    axes.set_xticks(ticks, [str(dim) for dim in ticks])
    axes.minorticks_off()
    axes.set_xlim(lengths[0] / 1.15, lengths[-1] * 1.15)


def _draw(axes: Axes, curve: Curve, number: int, longest: int | None) -> None:
    style = series_style(curve.key, number)
    if len(curve.values) == 1:
        (level,) = curve.values.values()
        del style["marker"], style["markeredgecolor"], style["markeredgewidth"]
        axes.axhline(level, label=legend_label(curve.name), **style)
        return
    lengths = _kept(curve, longest)
    values = [curve.values[dim] for dim in lengths]
    axes.plot(lengths, values, label=legend_label(curve.name), **style)
    if curve.spread:
        low, high = ([curve.values[dim] + sign * curve.spread.get(dim, 0.0) for dim in lengths] for sign in (-1.0, 1.0))
        axes.fill_between(lengths, low, high, color=style["color"], alpha=0.15, linewidth=0)


def _kept(curve: Curve, longest: int | None) -> list[int]:
    return [dim for dim in sorted(curve.values) if longest is None or dim <= longest]
