"""Steps by hand are those of the pipeline."""

from __future__ import annotations

import torch

from benchmarks.common.learners import stepping
from eigenmap.fitting import pipeline
from eigenmap.fitting.images import ImageTask
from eigenmap.fitting.options import RunOptions
from eigenmap.model import ImageInput
from eigenmap.recipes import Recipe
from tests.end_to_end.photos import pictures


def test_steps_by_hand_are_those_of_the_pipeline() -> None:
    pixels = torch.from_numpy(pictures(64, 8)).permute(0, 3, 1, 2).contiguous()
    rows = torch.arange(64)
    recipe = Recipe("test", n_components=8, hidden=16, batch_size=16, lr=0.01, warmup=0.2, views="weak")
    task = ImageTask(recipe, pixels, rows[:48], rows[48:], ImageInput(8, 3))
    options = RunOptions(steps=5, seed=3, device="cpu")
    made = stepping(task, options)
    losses = [made.step(step) for step in range(5)]
    trained = pipeline.train(task, options)
    for mine, theirs in zip(made.problem.network.parameters(), trained.problem.network.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert losses[0] != losses[-1]
