"""Items that can be run by name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper, and its cost at each scale.

    Attributes:
        name: name for `eigenmap reproduce NAME`.
        what: short description.
        paper: data and cost at the paper's scale.
        small: data and cost at the small scale, on one GPU; `tiny` takes seconds on any machine.
        published: result reported in the paper.

    """

    name: str
    what: str
    paper: str
    small: str
    published: str


ITEMS = (
    Item(
        "table-1",
        "linear probe, eight methods",
        "ImageNet folders; eight runs of 100 epochs, ResNet-50: an estimated several days on 8 GPUs",
        "CIFAR-10; eight runs of 50 epochs, ResNet-18: about a quarter of an hour on an H200",
        "68.4 (SimSiam 68.1, MoCo v2 67.4, SCL 67.0)",
    ),
    Item(
        "table-6",
        "node classification: the paper's two forms, our default, raw features (its rivals: docs/graph-benchmarks.md)",
        "ogb:ogbn-products; 444,020 steps: an estimated several days on a GPU",
        "a graph with labels, such as Amazon Computers; 2,000 steps: minutes on a GPU",
        "78.33 / 75.78 / 68.04 with 100 / 10 / 1 % of the labels (GCN 75.72 / 73.14 / 67.61)",
    ),
    Item(
        "figure-retrieval",
        "mAP by code length: ordered, without stop-gradient, SCL",
        "ImageNet folders; three runs of 100 epochs, ResNet-50: several days on 8 GPUs",
        "CIFAR-10; three runs of 50 epochs, ResNet-18: about 5 minutes on an H200",
        "a figure: up to 16 times shorter codes",
    ),
    Item(
        "figure-rbf",
        "eigenfunctions of the Gaussian kernel",
        "no data; half a minute",
        "the same",
        "a figure: three functions close to the true ones",
    ),
)
"""Items in the order of the paper; docs/paper.md lists those that cannot be run by name yet."""
