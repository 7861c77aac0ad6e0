from __future__ import annotations

import pytest

from eigenmap.evaluation.retrieval import pca, project, retrieval
from eigenmap.model import Eigenmap
from eigenmap.recipes import Recipe
from eigenmap.reproduce import load_sets
from eigenmap.reproduce.encoding import outputs_of
from eigenmap.reproduce.retrieval import retrieval_recipe, retrieval_scores
from eigenmap.reproduce.runs import Runs
from eigenmap.reproduce.searches import own_search
from eigenmap.reproduce.tables_7_8 import PCA, ROWS, tables_7_8
from eigenmap.training import CollapseError


@pytest.mark.slow
def test_short_codes_of_five_kinds() -> None:
    runs = Runs(load_sets("tiny", None), device="cpu")
    search = own_search(runs.sets, 10)
    scores = tables_7_8("tiny", runs, [search])["own"]
    assert len(scores) == 5 and all([row["dim"] for row in rows] == [4, 8, 16] for rows in scores.values())
    model = runs.model(retrieval_recipe("scl", "tiny"))  # the same seed, the same model
    train, test = (outputs_of(model, images, "projector") for images in (runs.sets.train, runs.sets.test))
    basis = pca(train, centred=False)
    assert scores[PCA] == retrieval(project(test, basis), project(train, basis), *search.truth(), [4, 8, 16], (10,))


@pytest.mark.slow
def test_curves_with_few_features() -> None:
    runs = Runs(load_sets("tiny", None), device="cpu")
    scores = retrieval_scores("tiny", runs, [own_search(runs.sets, 10)], small_k=True)["own"]
    assert [row["dim"] for rows in scores.values() for row in rows] == [4, 8] * 3


@pytest.mark.slow
def test_a_method_that_collapses_has_no_rows_and_the_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    runs = Runs(load_sets("tiny", None), device="cpu", say=said.append)
    usual = Runs.model

    def collapse(self: Runs, recipe: Recipe) -> Eigenmap:
        if recipe.objective == "neuralef":
            raise CollapseError("the features froze")
        return usual(self, recipe)

    monkeypatch.setattr(Runs, "model", collapse)
    search = own_search(runs.sets, 10)
    curves = retrieval_scores("tiny", runs, [search], small_k=True)["own"]
    assert [len(rows) for rows in curves.values()] == [0, 2, 2]
    codes = tables_7_8("tiny", runs, [search])["own"]
    assert [len(codes[name]) for name in ROWS] == [0, 3, 3, 3, 3]
    assert said.count("  the features froze") == 2


def test_features_of_the_retrieval_figure() -> None:
    for method in ("ordered", "unordered", "scl"):
        recipe = retrieval_recipe(method, "paper")
        assert (recipe.n_components, recipe.hidden or recipe.n_components) == (4096, 4096)
        few = retrieval_recipe(method, "small", small_k=True)
        assert (few.n_components, few.hidden) == (128, 8192)
    assert retrieval_recipe("scl", "small").hidden == 2048
