from __future__ import annotations

import pytest
import torch

from eigenmap import recipes
from eigenmap.augment.views import TwoViews
from eigenmap.core.errors import EigenmapError
from eigenmap.networks import build_encoder
from eigenmap.objectives import build
from eigenmap.recipes import RECIPES


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_names_things_that_exist(name: str) -> None:
    recipe = recipes.get(name)
    assert recipe.name == name
    TwoViews(recipe.views, recipe.image_size or 32)
    build(recipe.objective, **recipe.objective_options)
    with torch.device("meta"):
        build_encoder(recipe.encoder, image_size=recipe.image_size or 32, stem=recipe.stem)


@pytest.mark.parametrize("cuda", [False, True])
def test_auto_is_a_recipe_for_the_machine(cuda: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    assert recipes.get("auto") == RECIPES["gpu" if cuda and "gpu" in RECIPES else "laptop"]


def test_an_unknown_recipe_is_answered_with_the_known_ones() -> None:
    with pytest.raises(EigenmapError, match=r"recipe 'lunch'.*auto, .*laptop"):
        recipes.get("lunch")


@pytest.mark.parametrize("views", ["barlow_twins", "simclr"])
def test_the_papers_two_models(views: str) -> None:
    ending = "-simclr" if views == "simclr" else ""
    probe, retrieval = recipes.get(f"imagenet-probe{ending}"), recipes.get(f"imagenet-retrieval{ending}")
    assert (probe.objective, probe.n_components) == ("neuralef-unordered", 8192)
    assert (retrieval.objective, retrieval.n_components) == ("neuralef", 4096)
    for recipe in (probe, retrieval):
        assert recipe.objective_options == {"alpha": "paper", "scale": 20.0} and recipe.views == views
        assert (recipe.image_size, recipe.read_size) == (224, 256) and recipe.whole_images and recipe.imagenet_pixels
        assert (recipe.batch_size, recipe.lr, recipe.epochs, recipe.warmup) == (2048, 2.4, 100, 0.1)
