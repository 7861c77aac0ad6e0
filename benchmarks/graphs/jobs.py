"""Runs of the study of node codes: data sets, methods, settings and names of runs.

A job is one representation (or one supervised method), trained on one graph with one seed, with all of its
measurements: all label shares, several splits, seen and unseen nodes. Ours is a form (the objective) on a relation
(which nodes belong together, and which of their features are hidden); both are first screened on validation labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

SETS: Mapping[str, str] = {
    "amazon_computers": "Amazon Computers",
    "coauthor_physics": "Coauthor Physics",
    "debian_bookworm": "Debian packages",
    "planetoid_cora": "Cora",
    "planetoid_citeseer": "Citeseer",
}
"""Names of the files FOLDER/<name>.npz, and their names on the page."""

OFFICIAL = ("debian_bookworm",)
"""Sets whose own 10/10/80 split is used; the others get random ones of the same shares."""

SHARES = (0.01, 0.1, 1.0)
"""Shares of the training labels."""

SHORT = (8, 16, 32)
"""Lengths of short codes."""

WITHHELD = 0.2
"""Share of the labelled nodes that the setting "unseen" keeps from training, with all their edges."""

Setting = Literal["seen", "unseen"]
"""Trained on the whole graph, or without some nodes, their features and their edges."""

RIVALS = ("mlp", "gcn", "node2vec", "laplacian", "gcn-sampled", "bgrl")
"""Supervised: mlp, gcn, gcn-sampled. Codes with an MLP on top: laplacian, node2vec. Self-supervised: bgrl."""

BASE: Mapping[str, Any] = {"width": 256, "blocks": 1, "clip_norm": 1.0, "feature_dropout": 0.0, "walks": 16}
"""Settings common to all of ours, independent of the library's defaults."""

RELATIONS: Mapping[str, Mapping[str, Any]] = {
    "walks-hidden": {"go_on": 0.7, "feature_dropout": 0.5},
    "hidden": {"feature_dropout": 0.5},
    "uniform": {"start": "uniform"},
    "walks-uniform": {"go_on": 0.7, "start": "uniform"},
}
"""Screened with the form "scl"; the best on a set's validation labels is used there for every form.

`go_on`: pairs are the ends of random walks that continue with this probability (`eigenmap.relations.diffusion`).
"""

FURTHER: Mapping[str, Mapping[str, Any]] = {
    "walks": {"go_on": 0.7},
    "walks-uniform-wide": {"go_on": 0.7, "start": "uniform", "width": 1024},
    "walks-uniform-wider": {"go_on": 0.7, "start": "uniform", "width": 2048},
}
"""Tried on large graphs with dense features (hiding a hundred of those makes no sense)."""

DENSE = ("debian_bookworm",)

FORMS: Mapping[str, Mapping[str, Any]] = {
    "scl": {"objective": "scl"},
    "nested": {"objective": "nested"},
    "trace": {"objective": "ritz-trace"},
    "neuralef": {"objective": "neuralef"},
    "neuralef-unordered": {"objective": "neuralef-unordered"},
}
"""Objectives. Unordered: scl, trace and the paper's unordered one; ordered by themselves: nested and the paper's."""

CANDIDATES = ("scl", "nested")
"""Forms that may become "ours"; the others are for comparison."""

LENGTH: Mapping[str, tuple[int, int]] = {
    "amazon_computers": (2000, 2048),
    "coauthor_physics": (1500, 2048),
    "debian_bookworm": (3000, 4096),
    "planetoid_cora": (250, 1024),
    "planetoid_citeseer": (250, 1024),
}
"""Steps and pairs per step, the same for every form and relation."""

SCREEN, COST = "screen", "cost"


@dataclass(frozen=True)
class Job:
    """One run; `relation` is empty for rivals."""

    data: str
    method: str
    setting: Setting = "seen"
    seed: int = 0
    relation: str = ""
    screening: bool = False

    @property
    def name(self) -> str:
        """Name of the result; if it changes, every finished run counts as missing."""
        method = f"{self.method}-{self.relation}" if self.relation else self.method
        if self.screening:
            return f"{SCREEN}-{self.data}-{method}-s{self.seed}"
        if self.method == COST:
            return f"{COST}-{self.data}"
        return f"{self.data}-{method}-{self.setting}-s{self.seed}"

    @property
    def ours(self) -> bool:
        """Tell whether the method is one of ours."""
        return self.method in FORMS

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that differs from the library's recipe."""
        steps, batch_size = LENGTH[self.data]
        length = {"steps": steps, "batch_size": batch_size}
        return {**length, **BASE, **{**RELATIONS, **FURTHER}[self.relation], **FORMS[self.method]}
