"""Relations: where the pairs (x, x+) come from that a model learns to agree on."""

from eigenmap.relations.augmentation import (
    IMAGENET,
    RECIPES,
    Augmentation,
    Standardisation,
    TwoViews,
    plain,
    recipe,
    view,
)
from eigenmap.relations.batch import Batch
from eigenmap.relations.images import ImagePairs, split_held_out

__all__ = [
    "IMAGENET",
    "RECIPES",
    "Augmentation",
    "Batch",
    "ImagePairs",
    "Standardisation",
    "TwoViews",
    "plain",
    "recipe",
    "split_held_out",
    "view",
]
