"""Relations: sources of the pairs (x, x+) on which a model learns to agree."""

from eigenmap.augment.views import IMAGENET, RECIPES, Augmentation, Standardisation, TwoViews, plain, recipe, view
from eigenmap.core.batch import Batch
from eigenmap.relations.graph import GraphPairs, NodeBlocks, hold_out_edges
from eigenmap.relations.images import ImagePairs, split_held_out
from eigenmap.relations.kernel import KERNELS, KernelBlocks, kernel_function

__all__ = [
    "IMAGENET",
    "KERNELS",
    "RECIPES",
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
    "plain",
    "recipe",
    "split_held_out",
    "view",
]
