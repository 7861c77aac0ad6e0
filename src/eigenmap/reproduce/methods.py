"""Methods of the paper's comparisons, and their recipes at each scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from eigenmap import recipes
from eigenmap.recipes import Recipe

Scale = Literal["paper", "small", "tiny"]

PUBLISHED = {"alpha": "paper", "scale": 20.0}
"""Options of the paper's objective."""


@dataclass(frozen=True)
class Method:
    """An objective with its usual projector and, at small scale, its learning rate.

    Attributes:
        title: name in tables.
        objective: name of the objective, with `options`.
        n_components: features, with 2,048 hidden units of the projector.
        optimizer: "sgd" clips the gradient at norm 1; "lars" is the paper's.
        lr: learning rate at batch size 512.

    """

    title: str
    objective: str
    options: Mapping[str, Any] = field(default_factory=dict)
    n_components: int = 2048
    optimizer: Literal["sgd", "lars"] = "sgd"
    lr: float = 0.75


METHODS: dict[str, Method] = {
    "simclr": Method("SimCLR", "simclr"),
    "swav": Method("SwAV", "swav", {"prototypes": 512}, 128, lr=0.3),
    "moco": Method("MoCo v2", "moco", {"temperature": 0.1}, 128, lr=0.3),
    "byol": Method("BYOL", "byol", {}, 256, lr=0.3),
    "simsiam": Method("SimSiam", "simsiam", {}, 2048, lr=0.3),
    "scl": Method("SCL", "scl"),
    "barlow-twins": Method("Barlow Twins", "barlow-twins", {"lambda_": 0.0051}),
    "unordered": Method("the paper's, unordered", "neuralef-unordered", PUBLISHED, optimizer="lars", lr=0.3),
    "ordered": Method("the paper's, ordered", "neuralef", PUBLISHED, optimizer="lars", lr=0.6),
}
"""Table 1 contains all but the last; the retrieval figure contains SCL and the last two."""


def recipe_of(method: str, scale: Scale) -> Recipe:
    """Return the recipe of a method at a scale; all methods of a scale share encoder, views and schedule.

    At the paper's scale, all methods use the optimizer of the paper's own runs, and the paper's methods its recipes.
    """
    chosen = METHODS[method]
    settings: dict[str, Any] = {"objective": chosen.objective, "objective_options": dict(chosen.options)}
    if scale == "paper":
        if method in ("unordered", "ordered"):
            return recipes.get("imagenet-probe" if method == "unordered" else "imagenet-retrieval")
        wide = 8192 if chosen.n_components == 2048 else chosen.n_components
        return recipes.get("imagenet-probe").but(**settings, n_components=wide, hidden=8192)
    lars = chosen.optimizer == "lars"
    small = recipes.get("cifar10-resnet18").but(
        **settings,
        n_components=chosen.n_components,
        hidden=2048,
        views="cifar",
        epochs=50,
        optimizer=chosen.optimizer,
        lr=chosen.lr,
        weight_decay=1e-6 if lars else 5e-4,
        clip_norm=0.0 if lars else 1.0,
    )
    if scale == "small":
        return small
    tiny = {"image_size": 16, "n_components": 16, "hidden": 16, "batch_size": 32, "epochs": 2}
    return small.but(encoder="small-cnn", precision="32-true", channels_last=False, compile=False, **tiny)
