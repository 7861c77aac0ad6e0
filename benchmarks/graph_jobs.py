"""The runs of the study of node codes: data sets, methods and their settings, and how a run is named.

A job is one representation (or one supervised method), trained on one graph with one seed, and everything that is
measured on it: all label shares, several splits, seen and unseen nodes.
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
"""Files FOLDER/<name>.npz, and what the page calls them."""

OFFICIAL = ("debian_bookworm",)
"""Sets whose own 10/10/80 split is used; the others get random ones of the same shares."""

SHARES = (0.01, 0.1, 1.0)
"""Of the training labels."""

WITHHELD = 0.2
"""Share of the labelled nodes that the setting "unseen" keeps from training, with all their edges."""

Setting = Literal["seen", "unseen"]
"""Trained on the whole graph, or without some nodes, their features and their edges."""

RIVALS = ("mlp", "laplacian", "node2vec", "gcn", "gcn-sampled", "bgrl")
"""Supervised: mlp, gcn, gcn-sampled. Codes with an MLP on top: laplacian, node2vec. Self-supervised: bgrl."""

TRANSDUCTIVE = ("laplacian", "node2vec")
"""Have nothing to say about a node that was not there."""


@dataclass(frozen=True)
class Variant:
    """Settings of ours that differ from the library's recipe."""

    settings: Mapping[str, Any]
    note: str = ""


BASE: Mapping[str, Any] = {"objective": "scl", "batch_size": 4096, "blocks": 1, "clip_norm": 1.0}

VARIANTS: Mapping[str, Variant] = {
    "scl": Variant({**BASE, "feature_dropout": 0.5}),
    "scl-full": Variant({**BASE}, "no feature dropout"),
    "scl-hops2": Variant({**BASE, "feature_dropout": 0.5, "hops": 2}, "two hops"),
    "scl-uniform": Variant({**BASE, "feature_dropout": 0.5, "start": "uniform"}, "walks start at uniform nodes"),
    "scl-deep": Variant({**BASE, "feature_dropout": 0.5, "blocks": 5}, "the paper's depth"),
    "trace": Variant({**BASE, "objective": "ritz-trace", "feature_dropout": 0.5}),
    "nested": Variant({**BASE, "objective": "nested", "feature_dropout": 0.5}, "ordered by its objective"),
    "neuralef": Variant({**BASE, "objective": "neuralef", "feature_dropout": 0.5}, "the paper's, ordered"),
    "neuralef-unordered": Variant(
        {**BASE, "objective": "neuralef-unordered", "feature_dropout": 0.5}, "the paper's, unordered"
    ),
}
"""What is screened on the validation labels, seed 0; the best becomes "ours" on that data set."""

STEPS: Mapping[str, int] = {
    "amazon_computers": 2000,
    "coauthor_physics": 1500,
    "debian_bookworm": 3000,
    "planetoid_cora": 500,
    "planetoid_citeseer": 500,
}
"""Length of our training, the same for every variant."""


@dataclass(frozen=True)
class Job:
    """One run."""

    data: str
    method: str
    setting: Setting = "seen"
    seed: int = 0

    @property
    def name(self) -> str:
        """What its result is called; changing this makes every finished run look missing."""
        return f"graphs-{self.data}-{self.method}-{self.setting}-s{self.seed}"

    @property
    def ours(self) -> bool:
        """Whether it is one of our variants."""
        return self.method in VARIANTS
