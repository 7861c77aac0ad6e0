from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.recipes import Recipe, get
from eigenmap.recipes.graph import GRAPHS

RECIPE = Recipe(name="test")


def test_a_recipe_with_other_values() -> None:
    other = RECIPE.but(epochs=3, hidden=64, codes="encoder", objective_options={"alpha": 1})
    assert (other.epochs, other.hidden, other.codes, other.objective_options) == (3, 64, "encoder", {"alpha": 1})
    assert (other.name, other.lr) == (RECIPE.name, RECIPE.lr)
    assert RECIPE.hidden is None


def test_numbers_of_numpy_are_numbers() -> None:
    other = RECIPE.but(n_components=np.int64(8), lr=np.float64(0.1), epochs=np.int32(3))
    assert [type(value) for value in (other.n_components, other.lr, other.epochs)] == [int, float, int]


def test_none_leaves_a_setting_as_it_is() -> None:
    assert RECIPE.but(lr=None, n_components=None) == RECIPE


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lrr": 1}, "'lrr'.*lr"),
        ({"zzz": 1}, "'zzz'.*optimizer, lr, "),
        ({"name": "x"}, "setting 'name'"),
        ({"lr": "fast"}, "lr.*'fast'"),
        ({"clip_norm": "x"}, "clip_norm.*'x'"),
        ({"epochs": True}, "epochs.*True"),
        ({"n_components": 1.5}, r"n_components.*1\.5"),
        ({"n_components": 0}, "n_components.*0.*0"),
        ({"image_size": -3}, "image_size.*0.*-3"),
        ({"epochs": -1}, "epochs.*0.*-1"),
        ({"epochs": float("nan")}, "epochs.*finite.*nan"),
        ({"lr": float("inf")}, "lr.*finite.*inf"),
        ({"warmup": 2}, "warmup.*0.*1.*2"),
        ({"final_lr_fraction": -0.5}, r"final_lr_fraction.*0.*1.*-0\.5"),
        ({"compile": "no"}, "compile.*auto.*'no'"),
        ({"views": 3}, "views.*3"),
        ({"codes": "both"}, "codes.*auto, encoder, projector.*'both'"),
        ({"optimizer": "adam"}, "optimizer.*adamw, sgd, lars.*'adam'"),
        ({"objective_options": {1: 2}}, "objective_options.*{1: 2}"),
        ({"objective_options": "alpha=1"}, "objective_options.*'alpha=1'"),
    ],
    ids=str,
)
def test_what_a_recipe_cannot_have_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        RECIPE.but(**settings)


def test_options_stay_within_a_family_of_objectives() -> None:
    paper = {"alpha": "paper", "scale": 20.0}
    for recipe, other in ((get("imagenet-resnet50-100"), "neuralef-unordered"), (GRAPHS["paper"], "neuralef")):
        assert recipe.objective_options == paper
        assert recipe.but(objective=recipe.objective).objective_options == paper
        assert recipe.but(objective=other).objective_options == paper
        assert recipe.but(objective="neuralef-ratio").objective_options == {"scale": 20.0}  # its name fixes alpha
        assert recipe.but(objective=other, objective_options={"alpha": 1}).objective_options == {"alpha": 1}


@pytest.mark.parametrize("objective", ["scl", "neuralef-gram", "barlow-twins"])  # scl has a scale, of another kind
def test_options_of_another_family_are_refused_aloud(objective: str) -> None:
    paper = get("imagenet-resnet50-100")
    with pytest.raises(EigenmapError, match=f"^alpha, scale are options of neuralef, which {objective} does not"):
        paper.but(objective=objective)
    assert paper.but(objective=objective, objective_options={}).objective_options == {}
    assert RECIPE.but(objective=objective).objective_options == {}  # nothing to lose
