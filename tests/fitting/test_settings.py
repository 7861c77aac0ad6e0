"""Every setting of the training loop reaches it, through every function that fits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenmap import GraphEigenmap, fit_graph, fit_images
from eigenmap.cli import app
from eigenmap.fitting import pipeline
from eigenmap.recipes.graph import GraphRecipe
from eigenmap.recipes.recipe import BaseRecipe, Recipe
from eigenmap.training.config import Optimisation, TrainingConfig
from tests.compatibility.recording import graph, pictures

OTHER: dict[str, Any] = {
    "optimizer": "sgd",
    "lr": 0.123,
    "weight_decay": 0.045,
    "momentum": 0.67,
    "final_lr_fraction": 0.089,
    "clip_norm": 0.5,
    "projector_lr_scale": 0.3,
    "precision": "bf16-mixed",
    "decay": "linear",
    "clip_relative": 0.02,
    "weight_average": 0.9,
    "crops": 1,
    "accumulate": 2,
    "channels_last": True,
    "compile": True,
    "seed": 7,
    "steps": 3,
    "tensorboard": True,
    "accelerator": "cpu",
    "devices": 2,
    "nodes": 3,
}
"""A value for every field of the training configuration, different from all defaults."""
DERIVED = {"warmup_steps": 1, "log_every": 1, "check_every": 10, "checkpoint_every": 1}
"""Fields that follow from the steps (3) and the share of warm-up (0.5)."""
RUN = {"seed": "seed", "steps": "steps", "tensorboard": "tensorboard", "accelerator": "device"}
RUN |= {"devices": "devices", "nodes": "nodes"}
"""Fields that are options of the run rather than settings of the recipe, and the keyword of each."""


class ReachedError(Exception):
    """Raised to stop a fit where the loop would begin."""


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[TrainingConfig]:
    """Configurations with which the devices of a run are started."""
    seen: list[TrainingConfig] = []

    def start(config: TrainingConfig) -> None:
        seen.append(config)
        raise ReachedError

    monkeypatch.setattr(pipeline, "start", start)
    monkeypatch.setenv("MASTER_ADDR", "first")
    monkeypatch.setenv("NODE_RANK", "0")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    return seen


def through_images(**settings: Any) -> None:
    fit_images(pictures(), progress=False, **settings)


def through_graph(**settings: Any) -> None:
    fit_graph(graph(), progress=False, **settings)


def settings_of(kind: type[BaseRecipe]) -> list[str]:
    return sorted({each.name for each in fields(kind)} & {each.name for each in fields(TrainingConfig)})


def test_a_value_is_given_for_every_field() -> None:
    assert {*OTHER, *DERIVED} == {each.name for each in fields(TrainingConfig)}
    assert all(getattr(Recipe(name="x"), name) != OTHER[name] for name in settings_of(Recipe))
    assert {each.name for each in fields(Optimisation)} <= {*settings_of(Recipe)} & {*settings_of(GraphRecipe)}


@pytest.mark.parametrize(
    ("door", "name"),
    [(through_images, name) for name in sorted({*settings_of(Recipe), *RUN})]
    + [(through_graph, name) for name in sorted({*settings_of(GraphRecipe), *RUN})],
)
def test_a_setting_reaches_the_loop(door: Callable[..., None], name: str, reached: list[TrainingConfig]) -> None:
    with pytest.raises(ReachedError):
        door(**{RUN.get(name, name): OTHER[name]})
    assert getattr(reached[0], name) == OTHER[name]


@pytest.mark.parametrize("door", [through_images, through_graph])
def test_what_follows_from_the_length_reaches_the_loop(
    door: Callable[..., None], reached: list[TrainingConfig]
) -> None:
    with pytest.raises(ReachedError):
        door(steps=3, warmup=0.5)
    expected = DERIVED | ({"check_every": 100} if door is through_graph else {})
    assert {name: getattr(reached[0], name) for name in DERIVED} == expected


@pytest.mark.parametrize("name", settings_of(Recipe))
def test_a_setting_of_the_command_reaches_the_loop(name: str, reached: list[TrainingConfig], tmp_path: Path) -> None:
    np.save(tmp_path / "pictures.npy", pictures())
    words = ["fit", "images", str(tmp_path / "pictures.npy"), "--out", str(tmp_path / "run"), "--quiet"]
    with pytest.raises(ReachedError):
        app([*words, "--set", f"{name}={json.dumps(OTHER[name])}"], standalone_mode=False)
    assert getattr(reached[0], name) == OTHER[name]


@pytest.mark.parametrize("name", settings_of(GraphRecipe))
def test_a_setting_of_the_graph_command_reaches_the_loop(
    name: str, reached: list[TrainingConfig], tmp_path: Path
) -> None:
    x, edge_index = graph()
    np.savez(tmp_path / "graph.npz", x=x, edge_index=edge_index)
    words = ["fit", "graph", str(tmp_path / "graph.npz"), "--out", str(tmp_path / "run"), "--quiet"]
    with pytest.raises(ReachedError):
        app([*words, "--set", f"{name}={json.dumps(OTHER[name])}"], standalone_mode=False)
    assert getattr(reached[0], name) == OTHER[name]


@pytest.mark.parametrize("name", settings_of(GraphRecipe))
def test_a_setting_of_the_estimator_reaches_the_loop(name: str, reached: list[TrainingConfig]) -> None:
    x, edge_index = graph()
    with pytest.raises(ReachedError):
        GraphEigenmap(settings={name: OTHER[name]}).fit(x, edge_index=edge_index)
    assert getattr(reached[0], name) == OTHER[name]
