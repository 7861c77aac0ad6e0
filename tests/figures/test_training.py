"""Loss at every record, rank at every check."""

from __future__ import annotations

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.figures.style import png, svg
from eigenmap.figures.training import training_figure
from eigenmap.training.metrics import Record

HISTORY: list[Record] = [
    {"step": 10, "loss": -1.0},
    {"step": 20, "loss": -2.0, "effective_rank": 5.0},
    {"step": 30, "loss": -2.5},
    {"step": 40, "loss": -2.75, "effective_rank": 9.0},
]


def test_loss_and_health() -> None:
    figure = training_figure({"clean": HISTORY, "posed": HISTORY[:2]})
    loss, rank = figure.axes
    assert list(loss.get_lines()[0].get_ydata()) == [-1.0, -2.0, -2.5, -2.75]
    assert list(rank.get_lines()[0].get_xdata()) == [20, 40]
    assert list(rank.get_lines()[1].get_ydata()) == [5.0]
    assert rank.get_ylim()[0] == 0
    assert len(svg(figure)) > 3_000 and len(png(figure)) > 3_000


@pytest.mark.parametrize("runs", [{}, {"clean": []}])
def test_nothing_to_draw(runs: dict[str, list[Record]]) -> None:
    with pytest.raises(EigenmapError, match="draw"):
        training_figure(runs)


def test_monitors_get_a_panel_and_the_limit_a_band() -> None:
    watched: list[Record] = [
        {**record, "n_components": 128, "monitor": {"knn": record["step"] / 100}}
        if "effective_rank" in record
        else record
        for record in HISTORY
    ]
    watched.append({"step": 50, "loss": -3.0, "effective_rank": 9.5, "n_components": 128, "monitor": {"knn": None}})
    figure = training_figure({"run": watched})
    _, rank, knn = figure.axes
    assert list(knn.get_lines()[0].get_xdata()) == [20, 40] and list(knn.get_lines()[0].get_ydata()) == [0.2, 0.4]
    assert knn.get_ylabel() == "knn, held out"
    (band,) = rank.patches
    assert band.get_y() == 0 and band.get_height() == 2
    assert not figure.legends
