"""How training went: the objective, and the health of the features on held-out pairs.

figure = training_figure({"clean": records})     # records: the lines of metrics.jsonl
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from eigenmap.errors import EigenmapError
from eigenmap.figures.style import add_axes, add_legend, new_figure, numbered_look
from eigenmap.training.metrics import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def training_figure(runs: Mapping[str, Sequence[Record]]) -> Figure:
    """Loss and held-out effective rank against steps, one line a run."""
    if not runs or not all(runs.values()):
        raise EigenmapError("There is nothing to draw: give at least one run with a line of metrics.")
    figure = new_figure(9.4, 3.4)
    loss = add_axes(figure, (1, 2, 1), title="objective", xlabel="step", ylabel="loss")
    rank = add_axes(figure, (1, 2, 2), title="health", xlabel="step", ylabel="held-out effective rank")
    for number, (name, records) in enumerate(runs.items()):
        style = numbered_look(number)
        loss.plot([r["step"] for r in records], [r["loss"] for r in records], label=name, **style | {"marker": ""})
        checks = [record for record in records if "effective_rank" in record]
        rank.plot([r["step"] for r in checks], [r["effective_rank"] for r in checks], label=name, **style)
    rank.set_ylim(bottom=0)
    for axes in (loss, rank):
        axes.set_xlim(left=0)
    add_legend(figure, loss, columns=len(runs))
    return figure
