"""Names and descriptions of the figures, separate from the drawing code so that help texts load quickly."""

from __future__ import annotations

from typing import NamedTuple


class FigureInfo(NamedTuple):
    """Content and requirements of a figure."""

    shows: str
    needs: str


FIGURES = {
    "spectrum": FigureInfo("the eigenvalue of every feature", "RUN"),
    "lengths": FigureInfo("neighbours that a cut code keeps", "RUN"),
    "pairs": FigureInfo("score on held-out pairs by length", "RUN, a vector model"),
    "training": FigureInfo("loss and health by step", "RUN, its metrics.jsonl"),
    "exciting": FigureInfo("images that excite the first features", "RUN, --data"),
    "queries": FigureInfo("query results at 4 ... 64 features", "RUN, --data"),
    "retrieval": FigureInfo("mAP and precision by length, with baselines", "RUN, labelled --data"),
    "scores": FigureInfo("quality by length, from files", "--scores"),
    "optimised": FigureInfo("images synthesised to excite features (slow)", "RUN, --only optimised"),
}
"""Figures by file name, in drawing order."""

DATA_FIGURES = ("exciting", "queries", "retrieval")
"""Figures that need images."""
