"""Ablations of the paper: networks with other projectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn
from typing_extensions import override

from eigenmap.augment.views import IMAGENET_STANDARDISATION, Standardisation
from eigenmap.data import ImageSet
from eigenmap.fitting.images import ImageTask
from eigenmap.model import EncoderSpec, ImageInput
from eigenmap.networks import Network, encoder_width
from eigenmap.recipes import Recipe
from eigenmap.relations.images import split_held_out

ProjectorKind = Literal["mlp", "none", "linear", "no-batchnorm"]
"""Kinds of projectors; `mlp` is the paper's, with a hidden layer and BatchNorm."""


def build_projector(kind: ProjectorKind, in_features: int, out_features: int, hidden: int) -> nn.Module:
    """Build a projector without a hidden layer, or without BatchNorm.

    "none" returns the encoder's output unchanged, so there are as many functions as encoder features.
    """
    if kind == "none":
        return nn.Identity()
    if kind == "linear":
        return nn.Linear(in_features, out_features)
    return nn.Sequential(nn.Linear(in_features, hidden), nn.ReLU(), nn.Linear(hidden, out_features))


@dataclass(frozen=True)
class AblatedTask(ImageTask):
    """Image task with another projector; the model can be measured, but not saved."""

    projector: ProjectorKind = "mlp"

    @override
    def network(self, spec: EncoderSpec, seed: int) -> Network:
        network = super().network(spec, seed)
        if self.projector != "mlp":
            width = encoder_width(network.encoder)
            k = width if self.projector == "none" else self.recipe.n_components
            network.projector = build_projector(self.projector, width, k, self.recipe.hidden or k)  # type: ignore[assignment]
            network.n_components = k
        return network


def image_task(recipe: Recipe, images: ImageSet, seed: int, projector: ProjectorKind = "mlp") -> AblatedTask:
    """Return the task of a recipe on images of its size; a tenth of them is held out."""
    train, held = split_held_out(len(images), fraction=0.1, seed=seed, minimum=8, maximum=5_000)
    size = recipe.read_size or recipe.image_size or images.size
    return AblatedTask(
        recipe,
        images.pixels,
        train,
        held,
        ImageInput(
            size,
            images.channels,
            IMAGENET_STANDARDISATION if recipe.imagenet_pixels else Standardisation(),
            recipe.image_size if recipe.image_size not in (None, size) else None,
        ),
        digest=images.digest(),
        aspects=images.aspects,
        projector=projector,
    )
