"""Score on the held-out pairs of a vector model, by code length, with PCA and the plain prefix for comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from eigenmap.figures import report
from eigenmap.figures.curves import Curve, Panel, length_curves
from eigenmap.figures.report import Section
from eigenmap.model import Eigenmap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SERIES = {
    "ours": ("ours", "ordered code (ours)"),
    "linear": ("projector", "its linear part"),
    "pca": ("encoder-pca", "PCA of the vectors"),
    "prefix": ("pixels", "prefix of the vectors"),
}
"""Look and label of each series."""
NDCG, VAMP = "nDCG@10", "VAMP-2"
WORDS = {
    NDCG: "How well partners of held-out pairs are found, by code length.",
    VAMP: "How much of the slow dynamics the features describe on held-out rows, by their number: 1 for the constant, "
    "and the square of each singular value.",
}
"""What the score of a model, or of a model of a time series, measures."""


def pair_scores(model: Eigenmap) -> dict[str, dict[int, float]]:
    """Return scores by series and length; empty if the model does not record them."""
    try:
        recorded = model.training["vectors"]["scores"]
        found = {name: {int(d): float(s) for d, s in recorded[name].items()} for name in SERIES if name in recorded}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}
    complete = all(scores and np.isfinite(list(scores.values())).all() for scores in found.values())
    return found if "ours" in found and complete else {}


def _metric(model: Eigenmap) -> str:
    return VAMP if model.training["vectors"].get("metric") == "vamp-2" else NDCG


def pairs_figure(model: Eigenmap) -> Figure | None:
    """Draw scores on held-out pairs by length."""
    scores = pair_scores(model)
    if not scores:
        return None
    curves = [Curve(SERIES[name][0], SERIES[name][1], values) for name, values in scores.items()]
    return length_curves([Panel("", f"{_metric(model)} on held-out pairs", curves)])


def pairs_section(model: Eigenmap, figures: Mapping[str, Figure]) -> Section | None:
    """Return the section about held-out pairs, or None if the model does not record them."""
    scores = pair_scores(model)
    if not scores or "pairs" not in figures:
        return None
    about: Mapping[str, Any] = model.training["vectors"]
    lengths = sorted({dim for values in scores.values() for dim in values})
    rows = [
        [SERIES[name][1], *(f"{values[dim]:.3f}" if dim in values else "" for dim in lengths)]
        for name, values in scores.items()
    ]
    metric = _metric(model)
    words = (
        f"{WORDS[metric]} The same pairs chose between the candidates, so differences of a few thousandths mean "
        "nothing."
    )
    kept = about.get("keeps", {})
    numbers = [(f"{about.get('pairs', 0):,}", "training pairs"), (str(about.get("winner", "")), "chosen map")]
    if "dim" in kept and "share" in kept:
        numbers.append((str(kept["dim"]), f"features keep {kept['share']:.0%} of the score"))
    blocks = [
        report.key_figures(numbers),
        report.figure(figures["pairs"], words),
        report.table(["", *map(str, lengths)], rows, f"{metric} by number of features", strong=0),
    ]
    return Section("Held-out pairs", blocks)
