from __future__ import annotations

import pytest

from eigenmap import recipes
from eigenmap.cli.figures.reproduce import reproduce
from eigenmap.objectives import build
from eigenmap.reproduce import ITEMS, METHODS, our_numbers, recipe_of
from eigenmap.reproduce.methods import Scale


@pytest.mark.parametrize("scale", ["paper", "small", "tiny"])
@pytest.mark.parametrize("method", METHODS)
def test_one_encoder_views_and_schedule_for_all_methods_of_a_scale(method: str, scale: Scale) -> None:
    recipe, other = recipe_of(method, scale), recipe_of("scl", scale)
    for setting in ("encoder", "stem", "image_size", "read_size", "views", "epochs", "batch_size", "warmup"):
        assert getattr(recipe, setting) == getattr(other, setting), setting
    build(recipe.objective, **recipe.objective_options).check_components(recipe.n_components)


def test_the_papers_forms_have_its_options_at_every_scale() -> None:
    assert recipe_of("unordered", "paper") == recipes.get("imagenet-probe")
    assert recipe_of("ordered", "paper") == recipes.get("imagenet-retrieval")
    for scale in ("small", "tiny"):
        for form, name in (("ordered", "neuralef"), ("unordered", "neuralef-unordered")):
            recipe = recipe_of(form, scale)  # type: ignore[arg-type]
            assert (recipe.objective, recipe.objective_options) == (name, {"alpha": "paper", "scale": 20.0})
            assert (recipe.optimizer, recipe.clip_norm) == ("lars", 0.0)


def test_every_item_is_a_command_and_has_our_number() -> None:
    names = [item.name for item in ITEMS]
    assert len(set(names)) == len(names) and set(our_numbers()) == set(names)
    assert set(names) == {command.name for command in reproduce.registered_commands}
