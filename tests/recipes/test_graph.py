from __future__ import annotations

import pytest

from eigenmap import EigenmapError
from eigenmap.objectives import build
from eigenmap.recipes.graph import GRAPHS, PAPER, GraphRecipe, get_graph_recipe, objective_options


@pytest.mark.parametrize("name", list(GRAPHS))
def test_every_recipe_has_an_objective_that_exists(name: str) -> None:
    recipe = get_graph_recipe(name)
    assert build(recipe.objective, **objective_options(recipe))


def test_the_paper_has_its_figures() -> None:
    assert (PAPER.width, PAPER.blocks, PAPER.n_components, PAPER.batch_size) == (2048, 5, 8192, 16_384)
    assert (PAPER.codes, PAPER.standardise) == ("encoder", False)
    assert PAPER.steps == 20 * 149**2
    assert objective_options(PAPER)["alpha"] == pytest.approx(10 * 0.3)


def test_alpha_paper_means_the_graph_runs_for_node_blocks_only() -> None:
    recipe = GraphRecipe(objective="neuralef", objective_options={"alpha": "paper"})
    assert objective_options(recipe) == {"alpha": "paper"}
    assert objective_options(recipe.but(sampler="node-blocks")) == {"alpha": 3.0}
    chosen = recipe.but(sampler="node-blocks", objective_options={"alpha": 0.5})
    assert objective_options(chosen) == {"alpha": 0.5}
    for objective in ("scl", "neuralef-ratio", "neuralef-shifted", "neuralef-gram"):  # they have their own default
        assert objective_options(recipe.but(sampler="node-blocks", objective=objective, objective_options={})) == {}
    assert objective_options(recipe.but(sampler="node-blocks", objective_options={})) == {"alpha": 3.0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hopps": 2}, "hops"),
        ({"sampler": "rows"}, "sampler.*edges, node-blocks"),
        ({"width": 0}, "width.*0"),
        ({"steps": "many"}, "steps"),
        ({"start": 3}, "start.*degree, uniform"),
    ],
)
def test_bad_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        GraphRecipe().but(**settings)


def test_unknown_names() -> None:
    with pytest.raises(EigenmapError, match="auto, paper"):
        get_graph_recipe("gpu")
