from __future__ import annotations

import pytest

from eigenmap.objectives import build
from eigenmap.reproduce.methods import Scale, recipe_of
from eigenmap.reproduce.runs import Probe
from eigenmap.reproduce.sweeps import Run, SweepRow, chosen_rows, table_2_runs, table_3_runs, table_4_runs


@pytest.mark.parametrize("scale", ["paper", "small", "tiny"])
def test_every_run_can_be_built(scale: Scale) -> None:
    for run in (*table_2_runs(scale), *table_3_runs(scale), *table_4_runs(scale)):
        recipe = run.recipe(scale)
        build(recipe.objective, **recipe.objective_options).check_components(recipe.n_components)
        assert recipe.epochs > 0 and recipe.encoder == recipe_of("scl", scale).encoder


def test_batches_have_rates_in_proportion_and_the_papers_width() -> None:
    runs = [run for run in table_2_runs("paper") if run.method == "unordered"]
    recipes = [run.recipe("paper") for run in runs]
    assert [recipe.batch_size for recipe in recipes] == [256, 512, 1024, 2048]
    assert [recipe.lr for recipe in recipes] == pytest.approx([0.3, 0.6, 1.2, 2.4])
    assert {(recipe.n_components, recipe.hidden, recipe.epochs) for recipe in recipes} == {(2048, 2048, 100)}
    strengths = {run.lambda_ for run in table_2_runs("small") if run.method == "barlow-twins"}
    assert strengths == {0.0051, 0.0102, 0.0204}


def test_projectors_and_their_ablations() -> None:
    runs = table_3_runs("paper")
    assert [run.n_components for run in runs if run.method == "scl"] == [2048, 4096, 8192]
    strengths = {run.n_components: run.lambda_ for run in runs if run.method == "barlow-twins"}
    assert strengths == {2048: 0.0204, 4096: 0.0102, 8192: 0.0051}
    assert [run.projector for run in runs[-3:]] == ["none", "linear", "no-batchnorm"]
    assert {run.batch_size for run in runs} == {2048}


def test_the_shortest_runs_are_those_of_table_1_with_ten_epochs_of_warmup() -> None:
    for run in table_4_runs("paper"):
        recipe = run.recipe("paper")
        assert recipe.warmup * recipe.epochs == pytest.approx(10)
    assert Run("simsiam", epochs=50).recipe("small") == recipe_of("simsiam", "small")


def test_held_out_images_choose_the_strength() -> None:
    def row(value: str, lambda_: float, held_out: float | None) -> SweepRow:
        probe = Probe(linear=1.0, knn=1.0, knn_held_out=held_out, seconds=0.0, collapsed=None)
        return SweepRow(method="m", value=value, lambda_=lambda_, chosen=True, probe=probe)

    rows = [row("a", 1, 0.2), row("a", 2, 0.5), row("a", 3, None), row("b", 1, None), row("b", 2, 0.1)]
    assert [each["chosen"] for each in chosen_rows(rows)] == [False, True, False, False, True]
