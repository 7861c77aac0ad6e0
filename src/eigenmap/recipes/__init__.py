"""Named training settings, one file per family.

    recipe = get("cifar10-resnet18").but(epochs=200)

`auto` is `laptop` on a CPU and `gpu` on a machine with a GPU.
"""

from __future__ import annotations

import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.recipes.imagenet import IMAGENET
from eigenmap.recipes.laptop import CATALOGUE, LAPTOP
from eigenmap.recipes.recipe import Recipe
from eigenmap.recipes.vision import VISION

__all__ = ["RECIPES", "Recipe", "get"]

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (LAPTOP, CATALOGUE, *VISION, *IMAGENET)}


def get(name: str) -> Recipe:
    """Look up a recipe by name."""
    if name == "auto":
        name = "gpu" if torch.cuda.is_available() else "laptop"
    if not isinstance(name, str) or name not in RECIPES:
        raise EigenmapError(f"Unknown recipe {name!r}: choose one of auto, {', '.join(sorted(RECIPES))}.")
    return RECIPES[name]
