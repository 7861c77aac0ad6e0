"""Which figures there are; apart from what draws them, since the command line's help needs no more than the names."""

from __future__ import annotations

from typing import NamedTuple


class FigureInfo(NamedTuple):
    """What a figure shows, and what it needs."""

    shows: str
    needs: str


FIGURES = {
    "spectrum": FigureInfo("the eigenvalue of every feature", "RUN"),
    "lengths": FigureInfo("neighbours that a cut code keeps", "RUN"),
    "training": FigureInfo("loss and health at every step", "RUN, its metrics.jsonl"),
    "exciting": FigureInfo("images that excite the first features", "RUN, --data"),
    "queries": FigureInfo("what some images find at 4 ... 64 features", "RUN, --data"),
    "retrieval": FigureInfo("mAP and precision by length, with baselines", "RUN, labelled --data"),
    "scores": FigureInfo("quality by length, from files", "--scores"),
    "optimised": FigureInfo("images made to excite features, slowly", "RUN, --only optimised"),
}
"""By the name of the file, in the order in which they are drawn."""

DATA_FIGURES = ("exciting", "queries", "retrieval")
"""Those that need images."""
