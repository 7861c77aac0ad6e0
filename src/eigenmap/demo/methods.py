"""Methods compared in the demo: our ordered code and four rivals, each scored at every length.

    methods = compare(model, gallery=load("train"), queries=load("query"))
    methods["ours"].value("map_over_found@1000", dim=8)

- ours: the ordered code of the model.
- random: features of an *unordered* model (spectral contrastive loss, same network, views and steps) in random
  order, mean and spread over ten draws. Training it would double the time of the demo, so its figures and settings
  come from a file written by `benchmarks/catalogue/runs.py`.
- encoder-pca: principal components of our encoder's output, centred.
- pixel-pca: principal components of the pixels, centred.
- pixels: the pixels as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from eigenmap.data import ImageSet
from eigenmap.evaluation import baselines
from eigenmap.evaluation.retrieval import ScoreRow
from eigenmap.model import Eigenmap

METRIC_NAMES = {
    "map_over_found@1000": "mAP over what was found in the top 1,000",
    "map_over_relevant@1000": "mAP over all that is relevant, top 1,000",
    "map_over_found@100": "mAP over what was found in the top 100",
    "map_over_relevant@100": "mAP over all that is relevant, top 100",
    "precision@100": "precision of the top 100",
}
"""Metric keys of a row and their labels; the first is the main metric."""

NAMES = {
    "ours": "ordered code (ours)",
    "random": "random features, SCL",
    "encoder-pca": "PCA of our encoder",
    "pixel-pca": "PCA of pixels",
    "pixels": "raw pixels",
}
TOP = (100, 1000)
DRAWS = 10
LEVEL = 0.01
"""Two methods count as level if their mAP differs by no more than this."""


@dataclass(frozen=True)
class Method:
    """A method that makes codes, and its scores: one row per length, as returned by `evaluation.retrieval`."""

    key: str
    rows: Sequence[ScoreRow]

    @property
    def name(self) -> str:
        """Name used in tables."""
        return NAMES[self.key]

    @property
    def full(self) -> int:
        """Full length of the code."""
        return int(self.rows[-1]["dim"])

    def values(self, metric: str) -> dict[int, float]:
        """Return the metric by length."""
        return {int(row["dim"]): row[metric] for row in self.rows}

    def spread(self, metric: str) -> dict[int, float]:
        """Return the standard deviation over draws by length; empty without draws."""
        name = f"{metric}_spread"
        return {int(row["dim"]): row[name] for row in self.rows if name in row}

    def value(self, metric: str, dim: int) -> float | None:
        """Return the metric at one length, or None if it was not measured."""
        return self.values(metric).get(dim)


def compare(model: Eigenmap, gallery: ImageSet, queries: ImageSet) -> dict[str, Method]:
    """Score our code and the rivals that can be computed here."""
    return {key: Method(key, rows) for key, rows in baselines.compare(model, gallery, queries, TOP).items()}


def compare_random(model: Eigenmap, gallery: ImageSet, queries: ImageSet, draws: int = DRAWS, seed: int = 0) -> Method:
    """Score the projector's raw outputs in random order, the rival made from an unordered model."""
    return Method("random", baselines.compare_random(model, gallery, queries, TOP, draws, seed))


def stored_rival() -> dict[str, Any]:
    """Return the unordered rival as `benchmarks/catalogue/runs.py` measured it: settings, and rows by scene."""
    text = resources.files("eigenmap.demo").joinpath("rival.json").read_text(encoding="utf-8")
    rival: dict[str, Any] = json.loads(text)
    return rival


def where_pixels_are_level(methods: Mapping[str, Method]) -> str:
    """Compare with PCA of pixels by mAP over the top 100, in one sentence; aligned pictures leave little to gain."""
    metric = "map_over_found@100"
    ours, pixels = methods["ours"].values(metric), methods["pixel-pca"].values(metric)
    shared = [dim for dim in ours if dim in pixels]
    level = [dim for dim in shared if pixels[dim] >= ours[dim] - LEVEL]
    if not level:
        closest = min(shared, key=lambda dim: ours[dim] - pixels[dim])
        return (
            f"On mAP over the top 100, PCA of pixels comes closest at {closest} features, "
            f"with {pixels[closest]:.3f} against {ours[closest]:.3f}."
        )
    best = max(level, key=lambda dim: pixels[dim] - ours[dim])
    word = "ahead" if pixels[best] > ours[best] + LEVEL else "level"
    where = f"at {level[0]} features" if len(level) == 1 else f"from {level[0]} to {level[-1]} features"
    return (
        f"On mAP over the top 100, PCA of pixels is {word} {where}: "
        f"{pixels[best]:.3f} against our {ours[best]:.3f} at {best}."
    )
