"""What a recipe is: every choice that training on images needs, with a name."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from eigenmap.errors import EigenmapError
from eigenmap.training.config import Optimizer, Precision


@dataclass(frozen=True)
class Recipe:
    """All settings of a fit on images; change any with `recipe.but(lr=0.1, epochs=50)`.

    Attributes:
        encoder: name of the encoder, see `networks.build_encoder`; `stem` is that of its ResNets.
        image_size: side of the views in pixels; None keeps what `data.load_images` finds best.
        n_components: width of psi, and the most features a code can have.
        hidden: width of the projector's hidden layer; None means `n_components`.
        objective: name of the objective, with `objective_options` for its constructor.
        views: name of the augmentation recipe.
        epochs: passes over the training images; `batch_size` images a step (two views each).
        warmup: share of the steps over which the rate rises; then a cosine down to `final_lr_fraction`.
        clip_norm: largest norm of the gradient; 0 or None does not clip.
        compile: whether to compile network, objective and views; "auto" does it where a GPU has enough steps to take.
        codes: which output of the network becomes the code; "auto" decides on held-out pairs.

    The rest goes to `training.TrainingConfig` as it is.
    """

    name: str
    encoder: str = "small-cnn"
    stem: Literal["auto", "imagenet", "medium", "small"] = "auto"
    image_size: int | None = None
    n_components: int = 256
    hidden: int | None = None
    objective: str = "nested"
    objective_options: Mapping[str, Any] = field(default_factory=dict)
    views: str = "cifar"
    epochs: float = 50
    batch_size: int = 256
    optimizer: Optimizer = "adamw"
    lr: float = 2e-3
    weight_decay: float = 1e-2
    momentum: float = 0.9
    warmup: float = 0.05
    final_lr_fraction: float = 0.001
    clip_norm: float | None = None
    projector_lr_scale: float = 1.0
    precision: Precision = "32-true"
    channels_last: bool = False
    compile: bool | Literal["auto"] = "auto"
    accumulate: int = 1
    codes: Literal["auto", "encoder", "projector"] = "auto"

    def but(self, **settings: Any) -> Recipe:
        """This recipe with other values; those that are None stay as they are."""
        return changed(self, settings)

    def named(self, name: str) -> Recipe:
        """This recipe under another name."""
        return replace(self, name=name)


_POSITIVE = ("image_size", "n_components", "hidden", "batch_size", "epochs", "width", "steps")
_SHARES = ("warmup", "final_lr_fraction")
_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a name",
    Mapping: "a mapping of names",
}


R = TypeVar("R")


def changed(recipe: R, settings: Mapping[str, Any]) -> R:
    """A recipe of any kind with other values, checked against its declared types; None leaves a value as it is."""
    kinds = get_type_hints(type(recipe))
    known = [name for name in kinds if name != "name"]
    for name in settings:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(known)}."
            raise EigenmapError(f"A recipe has no setting {name!r}{hint}")
    given = {name: _plain(value) for name, value in settings.items() if value is not None}
    for name, value in given.items():
        if not _fits(value, kinds[name]):
            raise EigenmapError(f"{name} must be {_in_words(kinds[name])}, not {value!r}.")
        if name in _POSITIVE and value <= 0:
            raise EigenmapError(f"{name} must be above 0, not {value}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise EigenmapError(f"{name} must be a finite number, not {value}.")
        if name in _SHARES and not 0 <= value <= 1:
            raise EigenmapError(f"{name} is a share and must lie between 0 and 1, not {value}.")
    if given.get("objective", recipe.objective) != recipe.objective:  # type: ignore[attr-defined]
        given.setdefault("objective_options", {})  # those of the other one are not meant for it
    return replace(recipe, **given)  # type: ignore[type-var]


def _plain(value: Any) -> Any:
    """A number of Python for one of numpy, which loops over settings often have."""
    return value.item() if isinstance(value, np.generic) else value


def _fits(value: object, kind: Any) -> bool:
    """Whether a setting of this declared type may have this value."""
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
        # "or None" goes without saying.
        return " or ".join(_in_words(part) for part in get_args(kind) if part is not type(None))
    return _WORDS[get_origin(kind) or kind]
