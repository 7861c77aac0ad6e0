from __future__ import annotations

import pytest
import torch

from eigenmap.fitting.options import RunOptions
from eigenmap.networks import Projector
from eigenmap.reproduce import load_sets, recipe_of
from eigenmap.reproduce.ablations import ProjectorKind, image_task
from eigenmap.training import start


@pytest.mark.parametrize(
    ("kind", "width", "layers"),
    [
        ("mlp", 16, "Linear BatchNorm1d ReLU Linear"),
        ("none", 256, ""),
        ("linear", 16, "Linear"),
        ("no-batchnorm", 16, "Linear ReLU Linear"),
    ],
)
def test_projectors(kind: ProjectorKind, width: int, layers: str) -> None:
    images = load_sets("tiny", None).train
    task = image_task(recipe_of("unordered", "tiny"), images, seed=0, projector=kind)
    config = RunOptions(device="cpu").config(task.recipe, 10)
    network = task.problem(start(config), config).network
    assert isinstance(network.projector, Projector) == (kind == "mlp")
    built = [type(part).__name__ for part in network.projector.modules() if not list(part.children())]
    assert [name for name in built if name != "Identity"] == layers.split()
    features, psi = network.eval()(torch.rand(4, 3, 16, 16))
    assert psi.shape == (4, width) and network.n_components == width
    assert torch.equal(features, psi) == (kind == "none")


def test_tasks_hold_out_what_a_fit_holds_out() -> None:
    images = load_sets("tiny", None).train
    task = image_task(recipe_of("scl", "tiny"), images, seed=3)
    assert len(task.train_rows) + len(task.held_rows) == len(images) and len(task.held_rows) == 12
    assert task.image.view_size == 16 and task.digest == images.digest()
