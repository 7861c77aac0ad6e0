"""Names and descriptions of the figures, separate from the drawing code so that help texts load quickly."""

from __future__ import annotations

from typing import NamedTuple


class About(NamedTuple):
    """Content and requirements of a figure."""

    shows: str
    needs: str


FIGURES = {
    "spectrum": About("the eigenvalue of every feature", "RUN"),
    "lengths": About("neighbours that a cut code keeps", "RUN"),
    "training": About("loss and health by step", "RUN, its metrics.jsonl"),
    "exciting": About("images that excite the first features", "RUN, --data"),
    "queries": About("query results at 4 ... 64 features", "RUN, --data"),
    "retrieval": About("mAP and precision by length, with baselines", "RUN, labelled --data"),
    "scores": About("quality by length, from files", "--scores"),
    "optimised": About("images synthesised to excite features (slow)", "RUN, --only optimised"),
}
"""Figures by file name, in drawing order."""

DATA_FIGURES = ("exciting", "queries", "retrieval")
"""Figures that need images."""
