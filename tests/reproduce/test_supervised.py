from __future__ import annotations

import torch

from eigenmap.evaluation.probe import fit_ridge
from eigenmap.reproduce import load_sets, recipe_of
from eigenmap.reproduce.supervised import supervised_encoder


def test_labels_are_learned_and_runs_repeat() -> None:
    sets = load_sets("tiny", None)
    y, y_test = sets.classes()
    recipe = recipe_of("scl", "tiny").but(epochs=4)
    one, two = (supervised_encoder(recipe, sets.train, 0, "cpu") for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    with torch.no_grad():
        train, test = (one((images.pixels / 255 - 0.5) / 0.25) for images in (sets.train, sets.test))
    assert not one.training and fit_ridge(train, y).accuracy(test, y_test) > 0.8
