"""Relations: sources of the pairs (x, x+) whose codes should agree."""

from eigenmap.augment.views import (
    IMAGENET_STANDARDISATION,
    POLICIES,
    Augmentation,
    Standardisation,
    TwoViews,
    plain_view,
    policy,
    view,
)
from eigenmap.core.batch import Batch
from eigenmap.relations.graph import GraphPairs, NodeBlocks, hold_out_edges
from eigenmap.relations.images import ImagePairs, split_held_out
from eigenmap.relations.kernel import KERNELS, KernelBlocks, kernel_function

__all__ = [
    "IMAGENET_STANDARDISATION",
    "KERNELS",
    "POLICIES",
    "Augmentation",
    "Batch",
    "GraphPairs",
    "ImagePairs",
    "KernelBlocks",
    "NodeBlocks",
    "Standardisation",
    "TwoViews",
    "hold_out_edges",
    "kernel_function",
    "plain_view",
    "policy",
    "split_held_out",
    "view",
]
