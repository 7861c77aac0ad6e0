from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.data import ImageSet
from eigenmap.model import Eigenmap
from eigenmap.reproduce import load_sets, recipe_of
from eigenmap.reproduce.encoding import outputs_of
from eigenmap.reproduce.pictures import exciting_grid, optimised_grid, ordered_model, raw_outputs, result_grid
from eigenmap.reproduce.runs import Runs
from eigenmap.reproduce.searches import own_search
from eigenmap.reproduce.sets import Sets

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs() -> Runs:
    return Runs(load_sets("tiny", None), device="cpu")


@pytest.fixture(scope="module")
def model(runs: Runs) -> Eigenmap:
    return runs.model(recipe_of("ordered", "tiny").but(epochs=1))


def test_results_are_the_nearest_by_prefixes_of_raw_outputs(runs: Runs, model: Eigenmap) -> None:
    search = own_search(runs.sets, 10)
    _, found = result_grid(model, search, queries=2)
    assert len(found) == 2 and [row["dim"] for row in found[0]] == [4, 8, 16]
    psi, others = (outputs_of(model, images, "projector") for images in (runs.sets.test, runs.sets.train))
    near = torch.nn.functional.cosine_similarity(psi[0, :4], others[:, :4]).argsort(descending=True)[:10]
    y, y_test = runs.sets.classes()
    assert found[0][0]["labels"] == [str(int(y[row])) for row in near]
    assert found[0][0]["right"] == pytest.approx(float((y[near] == y_test[0]).double().mean()))


def test_images_that_excite_raw_outputs(runs: Runs, model: Eigenmap) -> None:
    _, names = exciting_grid(model, runs.sets.test)
    psi = outputs_of(model, runs.sets.test, "projector")
    assert len(names) == 8 and len(names[0]) == 10
    assert names[3] == [str(int(row)) for row in psi[:, 3].argsort(descending=True, stable=True)[:10]]


def test_images_made_to_excite_raw_outputs(model: Eigenmap) -> None:
    _, values = optimised_grid(model, steps=15, features=3)
    assert len(values) == 3 and all(most > least for most, least in values)
    images = torch.rand(2, 3, 16, 16)
    with torch.no_grad():
        _, psi = model.network((images - 0.5) / 0.25)
    torch.testing.assert_close(raw_outputs(model, images, [1, 2]).detach(), psi[[0, 1], [1, 2]])


def test_saved_models(runs: Runs, model: Eigenmap, tmp_path: Path) -> None:
    model.save(tmp_path / "own")
    assert ordered_model("tiny", runs, tmp_path / "own").n_components == model.n_components
    large = ImageSet(torch.zeros(2, 3, 32, 32, dtype=torch.uint8), ["a", "b"])
    with pytest.raises(EigenmapError, match=r"own takes images of 16 pixels.*32"):
        ordered_model("tiny", Runs(Sets(runs.sets.train, large), device="cpu"), tmp_path / "own")
