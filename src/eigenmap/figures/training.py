"""Training figure: objective, and health of the features on held-out pairs.

figure = training_figure({"clean": records})     # records: the lines of metrics.jsonl
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from eigenmap.core.errors import EigenmapError
from eigenmap.figures.style import GRID, add_axes, add_legend, legend_label, new_figure, numbered_look, write_text
from eigenmap.training.health import lowest_rank
from eigenmap.training.metrics import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def training_figure(runs: Mapping[str, Sequence[Record]]) -> Figure:
    """Draw loss, held-out effective rank and monitored values by step, one line per run."""
    if not runs or not all(runs.values()):
        raise EigenmapError("Nothing to draw: give at least one run with a line of metrics.")
    monitors = sorted({name for records in runs.values() for record in records for name in record.get("monitor", {})})
    columns = 2 + len(monitors)
    figure = new_figure(9.4 if columns == 2 else 3.5 * columns, 3.4)
    loss = add_axes(figure, (1, columns, 1), title="objective", xlabel="step", ylabel="loss")
    rank = add_axes(figure, (1, columns, 2), title="health", xlabel="step", ylabel="held-out effective rank")
    watched = [
        add_axes(figure, (1, columns, place), title="monitor", xlabel="step", ylabel=f"{name}, held out")
        for place, name in enumerate(monitors, start=3)
    ]
    for number, (name, records) in enumerate(runs.items()):
        style = numbered_look(number)
        line = style | {"marker": ""}
        losses = [(r["step"], r["loss"]) for r in records if "loss" in r]
        loss.plot([step for step, _ in losses], [value for _, value in losses], label=legend_label(name), **line)
        checks = [record for record in records if "effective_rank" in record]
        rank.plot([r["step"] for r in checks], [r["effective_rank"] for r in checks], **style)
        for axes, monitor in zip(watched, monitors, strict=True):
            seen = [(r["step"], value) for r in checks if (value := r.get("monitor", {}).get(monitor)) is not None]
            axes.plot([step for step, _ in seen], [value for _, value in seen], **style)
    _limit(rank, runs)
    for axes in (loss, rank, *watched):
        axes.set_xlim(left=0)
    if len(runs) > 1:
        add_legend(figure, loss, columns=len(runs))
    return figure


def _limit(axes: Axes, runs: Mapping[str, Sequence[Record]]) -> None:
    """Draw the rank below which features count as copies of each other."""
    axes.set_ylim(bottom=0)
    sizes = [r["n_components"] for records in runs.values() for r in records if "n_components" in r]
    if not sizes:
        return
    limit = lowest_rank(max(sizes))
    axes.axhspan(0, limit, color=GRID, alpha=0.9, linewidth=0, zorder=1)
    write_text(axes, 0.99, limit, "collapsed ", va="bottom", ha="right", transform=axes.get_yaxis_transform())
