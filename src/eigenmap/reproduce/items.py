"""Tables and figures of the paper that can be run by name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files


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
        "ImageNet folders; eight runs of 100 epochs, ResNet-50: about 10 hours on 8 H200, estimated",
        "CIFAR-10; eight runs of 50 epochs, ResNet-18: about a quarter of an hour on an H200",
        "68.4 (SimSiam 68.1, MoCo v2 67.4, SCL 67.0)",
    ),
    Item(
        "table-2",
        "linear probe by batch size: SCL, Barlow Twins with three strengths, the paper's",
        "ImageNet folders; 20 runs of 100 epochs: more than a day on 8 H200, estimated",
        "CIFAR-10; 20 runs of 20 epochs: about 10 minutes on an H200, estimated",
        "60.5 / 63.3 / 65.7 / 66.8 at batch 256 / 512 / 1,024 / 2,048 (SCL 63.0 / 64.6 / 65.6 / 66.5)",
    ),
    Item(
        "table-3",
        "linear probe by projector: three widths; none, linear, without BatchNorm",
        "ImageNet folders; 12 runs of 100 epochs: about 15 hours on 8 H200, estimated",
        "CIFAR-10; 12 runs of 20 epochs: about 6 minutes on an H200, estimated",
        "66.8 / 67.7 / 68.4 at 2,048 / 4,096 / 8,192 (SCL 66.5 / 67.1 / NaN)",
    ),
    Item(
        "table-4",
        "linear probe by length of training, against SimSiam",
        "ImageNet folders; six runs of 100, 200 and 400 epochs: about 18 hours on 8 H200, estimated",
        "CIFAR-10; six runs of 50, 100 and 200 epochs: about 10 minutes on an H200, estimated",
        "68.4 / 70.3 / 71.5 after 100 / 200 / 400 epochs (SimSiam 68.1 / 70.0 / 70.8)",
    ),
    Item(
        "table-5",
        "detection and segmentation: Mask R-CNN C4 from five initial weights",
        "ImageNet folders and COCO 2017; 90,000 steps per initial weights: days on 8 GPUs, estimated",
        "CIFAR-10; 2,000 steps on a generated set per initial weights: about 20 minutes on an H200, estimated",
        "AP 39.9, masks 34.9 (Barlow Twins 39.2, 34.3; supervised 38.2, 33.3)",
    ),
    Item(
        "table-6",
        "node classification: the paper's two forms, our default, raw features (its rivals: docs/graph-benchmarks.md)",
        "ogb:ogbn-products; 444,020 steps: an estimated several days on a GPU",
        "a graph with labels, such as Amazon Computers; 2,000 steps: minutes on a GPU",
        "78.33 / 75.78 / 68.04 with 100 / 10 / 1 % of the labels (GCN 75.72 / 73.14 / 67.61)",
    ),
    Item(
        "tables-7-8",
        "mAP of 4 to 32 features: the paper's ordered codes, SCL with PCA, our code",
        "ImageNet folders, COCO 2017, NUS-WIDE; two runs of 100 epochs: about 3 hours on 8 H200, estimated",
        "CIFAR-10; two runs of 50 epochs, ResNet-18: about 3 minutes on an H200",
        "COCO .593 to .683 (SCL + PCA .482 to .690), NUS-WIDE .671 to .745 (.485 to .758)",
    ),
    Item(
        "test-cost",
        "seconds to classify all nodes and one: the paper's encoder, GCN",
        "ogb:ogbn-products; minutes on a GPU",
        "a generated graph of that size; about a minute on an H200, estimated",
        "0.0013 s for one node; GCN 0.3818 s for all of them",
    ),
    Item(
        "figure-retrieval",
        "mAP by code length: ordered, without stop-gradient, SCL; with --small-k 128 features",
        "ImageNet folders and released sets to search; three runs of 100 epochs: about 4 hours on 8 H200, estimated",
        "CIFAR-10; three runs of 50 epochs, ResNet-18: about 5 minutes on an H200",
        "a figure: up to 16 times shorter codes",
    ),
    Item(
        "figure-grid",
        "the ten nearest images by 4 to 64 features",
        "ImageNet folders and COCO 2017, or --model; one run of 100 epochs",
        "CIFAR-10, or --model; one run of 50 epochs, ResNet-18: about a minute on an H200",
        "a figure",
    ),
    Item(
        "figure-excite",
        "the ten test images that excite each of 8 features most",
        "ImageNet folders, or --model; one run of 100 epochs",
        "CIFAR-10, or --model; one run of 50 epochs, ResNet-18: about a minute on an H200",
        "a figure",
    ),
    Item(
        "figure-optimise",
        "images made from noise that excite each of 8 features",
        "ImageNet folders, or --model; one run of 100 epochs, 5,000 steps per image",
        "CIFAR-10, or --model; one run of 50 epochs, ResNet-18: some minutes on an H200",
        "a figure",
    ),
    Item(
        "figure-rbf",
        "eigenfunctions of the Gaussian kernel",
        "no data; half a minute",
        "the same",
        "a figure: three functions close to the true ones",
    ),
)
"""Items in the order of the paper."""


def our_numbers() -> dict[str, str]:
    """Return our result for each item, as `python -m benchmarks paper page` wrote it from the stored results."""
    content: dict[str, str] = json.loads((files("eigenmap.reproduce") / "ours.json").read_text(encoding="utf-8"))
    return content
