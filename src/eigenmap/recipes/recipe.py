"""Recipes: named collections of all settings of a fit."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import options_for
from eigenmap.training.config import LATER, RESUME_ANYHOW, Optimisation, Setting, TrainingConfig, settings_to_resume


@dataclass(frozen=True, kw_only=True)
class BaseRecipe(Optimisation):
    """Settings common to every kind of data, including those of `Optimisation`.

    Attributes:
        n_components: width of psi, which is the maximum length of a code.
        hidden: width of the projector's hidden layer; None means `n_components`.
        objective: name of the objective; `objective_options` are passed to its constructor.
        warmup: share of the steps over which the learning rate rises, before cosine decay to `final_lr_fraction`.
        clip_norm: maximum gradient norm; 0 or None disables clipping.
        compile: whether to compile network and objective.
        codes: network output that becomes the code; "auto" combines both on images, and chooses one on graphs.

    """

    fewest_steps_to_a_check: ClassVar[int]
    """Minimum number of steps between checks. Three bad ones stop a run, and after a few steps any network is bad."""

    name: str = field(kw_only=False, metadata=RESUME_ANYHOW)
    n_components: int
    hidden: int | None = None
    objective: str
    objective_options: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int
    warmup: float = field(default=0.05, metadata=RESUME_ANYHOW)  # TrainingConfig has it as a number of steps
    compile: bool | Literal["auto"] = False
    codes: Literal["auto", "encoder", "projector"] = field(default="auto", metadata=RESUME_ANYHOW)


@dataclass(frozen=True, kw_only=True)
class Recipe(BaseRecipe):
    """All settings of a fit on images; change some with `recipe.but(lr=0.1, epochs=50)`.

    Attributes:
        encoder: name of the encoder (see `networks.build_encoder`); `stem` applies to its ResNets.
        image_size: side of the views in pixels; None keeps the choice of `data.load_images`.
        read_size: side at which images are read; plain images are their central `image_size`. None means `image_size`.
        whole_images: whether random crops are taken from whole images instead of their central squares.
        imagenet_pixels: whether pixels are standardised by ImageNet's mean and deviation.
        views: name of the augmentation recipe.
        epochs: passes over the training images; `batch_size` images per step (two views each).
        compile: whether to compile network, objective and views; "auto" does so on a GPU with enough steps.
        crops: number of small crops of every image, at half the size, that are compared with both views.
        projector_layers: number of layers of the projector, at least 2.

    The other settings are those of `BaseRecipe` and `training.TrainingConfig`.
    """

    fewest_steps_to_a_check: ClassVar[int] = 10

    encoder: str = "small-cnn"
    stem: Literal["auto", "imagenet", "medium", "small"] = "auto"
    image_size: int | None = None
    # `ImageTask` adds the next three to a run's settings if they are not the usual ones.
    read_size: int | None = field(default=None, metadata=RESUME_ANYHOW)
    whole_images: bool = field(default=False, metadata=RESUME_ANYHOW)
    imagenet_pixels: bool = field(default=False, metadata=RESUME_ANYHOW)
    n_components: int = 256
    objective: str = "nested"
    views: str = "cifar"
    epochs: float = field(default=50, metadata=RESUME_ANYHOW)
    batch_size: int = 256
    channels_last: bool = False
    compile: bool | Literal["auto"] = "auto"
    accumulate: int = 1
    crops: int = field(default=0, metadata=LATER)
    projector_layers: int = field(default=2, metadata=LATER)

    def but(self, **settings: Any) -> Recipe:
        """Return this recipe with other values; None leaves a value unchanged."""
        return changed(self, settings)

    def named(self, name: str) -> Recipe:
        """Return this recipe under another name."""
        return replace(self, name=name)


def identity(recipe: BaseRecipe) -> dict[str, Setting]:
    """Return the settings that must be equal to resume a run, besides the training configuration."""
    elsewhere = {each.name for each in fields(TrainingConfig)}
    settings = {name: value for name, value in settings_to_resume(recipe).items() if name not in elsewhere}
    options = json.dumps(dict(recipe.objective_options), sort_keys=True, default=str)
    return {**settings, "objective_options": options}


_POSITIVE = ("image_size", "read_size", "n_components", "hidden", "batch_size", "width", "steps")
_SHARES = ("warmup", "final_lr_fraction", "dropout")
_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a name",
    Mapping: "a mapping of names",
}


R = TypeVar("R", bound=BaseRecipe)


def changed(recipe: R, settings: Mapping[str, Any]) -> R:
    """Return a recipe of any kind with other values, checked against the declared types; None leaves one unchanged."""
    kinds = get_type_hints(type(recipe))
    require_settings(type(recipe), settings)
    given = {name: _plain(value) for name, value in settings.items() if value is not None}
    for name, value in given.items():
        if not _fits(value, kinds[name]):
            raise EigenmapError(f"{name} must be {_in_words(kinds[name])}, not {value!r}.")
        if name in _POSITIVE and value <= 0:
            raise EigenmapError(f"{name} must be above 0, not {value}.")
        if name == "epochs" and value < 0:
            raise EigenmapError(f"epochs must be at least 0, not {value}; with 0 nothing is trained.")
        if isinstance(value, float) and not math.isfinite(value):
            raise EigenmapError(f"{name} must be a finite number, not {value}.")
        if name in _SHARES and not 0 <= value <= 1:
            raise EigenmapError(f"{name} is a share and must lie between 0 and 1, not {value}.")
    if "objective" in given and "objective_options" not in given:
        given["objective_options"] = options_for(given["objective"], recipe.objective_options, recipe.objective)
    return replace(recipe, **given)


def require_settings(kind: type[BaseRecipe], names: Iterable[str]) -> None:
    """Refuse a name that is not a setting of this kind of recipe."""
    known = [each.name for each in fields(kind) if each.name != "name"]
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(known)}."
            raise EigenmapError(f"A recipe has no setting {name!r}{hint}")


def _plain(value: Any) -> Any:
    """Convert a NumPy number to Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _fits(value: object, kind: Any) -> bool:
    """Tell whether a value fits the declared type of a setting."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in parts
    if origin in (UnionType, Union):
        return any(_fits(value, part) for part in parts)
    if isinstance(value, bool):
        return kind is bool
    if origin is Mapping:
        return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
    return isinstance(value, (int, float) if kind is float else origin or kind)


def _in_words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind)) if len(get_args(kind)) > 1 else str(get_args(kind)[0])
    if get_origin(kind) in (UnionType, Union):
        # "or None" is left out.
        return " or ".join(_in_words(part) for part in get_args(kind) if part is not type(None))
    return _WORDS[get_origin(kind) or kind]
