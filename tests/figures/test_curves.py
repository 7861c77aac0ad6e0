"""Curves show what they are given: values, spreads, level lines, ticks at the lengths."""

from __future__ import annotations

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.figures.curves import Curve, Panel, length_curves, retrieval_curves
from eigenmap.figures.style import png, svg

OURS = Curve("ours", "ordered code", {2: 0.5, 4: 0.6, 8: 0.65, 48: 0.66})
RANDOM = Curve("random", "random features", {2: 0.2, 4: 0.3, 8: 0.4}, {2: 0.05, 4: 0.02, 8: 0.0})
PIXELS = Curve("pixels", "raw pixels", {784: 0.62})


def test_panels_show_every_curve() -> None:
    figure = retrieval_curves({"clean": [OURS, RANDOM, PIXELS], "posed": [OURS]}, "mAP")
    clean, posed = figure.axes
    assert (clean.get_title("left"), posed.get_title("left")) == ("clean", "posed")
    lines = {line.get_label(): line for line in clean.get_lines()}
    assert list(lines["ordered code"].get_xdata()) == [2, 4, 8, 48]
    assert list(lines["ordered code"].get_ydata()) == [0.5, 0.6, 0.65, 0.66]
    assert set(lines["raw pixels"].get_ydata()) == {0.62}
    assert [label.get_text() for label in figure.legends[0].get_texts()] == list(lines)
    assert clean.get_ylim() == posed.get_ylim()
    assert len(svg(figure)) > 5_000 and len(png(figure)) > 5_000


def test_the_band_is_the_spread() -> None:
    figure = retrieval_curves({"": [RANDOM]}, "mAP")
    (band,) = figure.axes[0].collections
    corners = band.get_paths()[0].vertices.round(6).tolist()
    assert [2, 0.15] in corners and [2, 0.25] in corners and [4, 0.28] in corners


def test_ticks_are_the_powers_of_two_among_the_lengths() -> None:
    axes = retrieval_curves({"": [OURS, PIXELS]}, "mAP").axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["2", "4", "8"]


def test_lengths_beyond_the_longest_are_left_out() -> None:
    axes = retrieval_curves({"": [OURS]}, "mAP", longest=8).axes[0]
    assert list(axes.get_lines()[0].get_xdata()) == [2, 4, 8]
    assert axes.get_xlim()[1] < 16


@pytest.mark.parametrize("panels", [{}, {"clean": []}, {"clean": [Curve("ours", "ours", {})]}])
def test_nothing_to_draw(panels: dict[str, list[Curve]]) -> None:
    with pytest.raises(EigenmapError, match="draw"):
        retrieval_curves(panels, "mAP")


def test_panels_of_different_metrics_have_their_own_axes() -> None:
    high = Curve("ours", "ours", {2: 0.9, 4: 0.95})
    figure = length_curves([Panel("", "mAP", [OURS]), Panel("", "precision", [high]), Panel("", "mAP", [OURS])])
    first, second, third = figure.axes
    assert first.get_ylim() == third.get_ylim() != second.get_ylim()
    assert [axes.get_ylabel() for axes in figure.axes] == ["mAP", "precision", ""]


def test_names_are_taken_literally() -> None:
    strange = [Curve("ours", "_hidden", {2: 0.1, 4: 0.2}), Curve("random", r"5$ <b> $\frac$", {2: 0.1, 4: 0.2})]
    figure = length_curves([Panel("a $x$ title", "mAP", strange)])
    text = svg(figure)
    assert "_hidden" in text and r"5$ &lt;b&gt; $\frac$" in text and "a $x$ title" in text


def test_a_single_curve_without_a_name_needs_no_legend() -> None:
    assert not length_curves([Panel("", "recall", [Curve("ours", "", {1: 0.2, 2: 0.4})])]).legends


def test_a_legend_of_long_names_stays_inside_the_figure() -> None:
    names = ["a code with quite a long name, 3 runs", "another one that is as long as the first", "short"]
    figure = length_curves([Panel("", "mAP", [Curve(name, name, {2: 0.1, 4: 0.2}) for name in names])])
    png(figure)  # lays it out
    box = figure.legends[0].get_window_extent()
    assert box.x1 <= figure.bbox.x1 and box.x0 >= figure.bbox.x0
