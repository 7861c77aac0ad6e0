"""`--config FILE`: the settings of an earlier run, or of a file of one's own, in place of options."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from eigenmap.cli.fit.options import TRAINING
from eigenmap.cli.options import option
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import read_json

ConfigOption = Annotated[
    Path | None,
    option(
        "--config FILE",
        "Settings of an earlier run, its model.json: recipe, seed and length. Or a JSON object of settings. Options of "
        "the command take precedence; files and weights are not recorded.",
        TRAINING,
    ),
]


@dataclass(frozen=True)
class Config:
    """What a file says: settings of the recipe, and of a run also its recipe, seed and number of steps.

    Some things are in no recipe: `unit` tells whether rows of vectors were scaled, `width` is that of a tower of
    vectors, and `two_spaces` tells whether partners had a map of their own.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    recipe: str | None = None
    seed: int | None = None
    steps: int | None = None
    unit: bool | None = None
    width: int | None = None
    two_spaces: bool = False

    def only(self, *names: str) -> Config:
        """Return the same without other settings than these."""
        return replace(self, settings={name: value for name, value in self.settings.items() if name in names})


def read_config(path: Path | None, *, other_length: bool = False) -> Config:
    """Read a model.json, or a JSON object of settings; without a path, nothing is set.

    With `other_length` the length of training is given elsewhere, and that of the file is left out.
    """
    if path is None:
        return Config()
    try:
        about = read_json(path)
    except OSError as error:
        raise EigenmapError(f"--config {path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise EigenmapError(f"--config {path} cannot be read as JSON: {error}.") from None
    if not isinstance(about, dict):
        raise EigenmapError(f"--config {path} must be a model.json or a JSON object of settings.")
    if "format" not in about:
        return Config(settings=_known(about, other_length))
    training = about.get("training")
    if not isinstance(training, dict) or not isinstance(training.get("recipe"), dict):
        raise EigenmapError(f"--config {path} records no recipe; give the model.json of a run, or a JSON of settings.")
    recipe = _known(training["recipe"], other_length)
    name = recipe.pop("name", None)
    steps = None if other_length else training.get("steps") or None
    if steps is not None:
        recipe.pop("epochs", None)  # the number of steps is exact
        if "steps" in recipe:
            recipe["steps"] = steps  # fewer than planned, if the time was up before
    spaces = _at(training, "vectors", "two_spaces") is True
    return Config(recipe, name, training.get("seed"), steps, _at(about, "input", "unit"), _width(about), spaces)


def _width(about: dict[str, Any]) -> int | None:
    width: int | None = _at(about.get("right"), "encoder", "width")
    return width


def _at(about: object, *names: str) -> Any:
    """Return a value of nested objects, None if it is missing."""
    for name in names:
        about = about.get(name) if isinstance(about, dict) else None
    return about


def _known(settings: dict[str, Any], other_length: bool) -> dict[str, Any]:
    """Leave out what has no value, which for a recipe means "as it is", and the length if it is given elsewhere."""
    unused = {"epochs", "steps"} if other_length else set()
    return {name: value for name, value in settings.items() if value is not None and name not in unused}


def seed_of(ctx: typer.Context, seed: int, config: Config) -> int:
    """Return the seed of the file, unless one was given on the command line."""
    return seed if config.seed is None or was_given(ctx, "seed") else config.seed


def was_given(ctx: typer.Context, name: str) -> bool:
    """Tell whether an option was given on the command line."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
