"""Table 1: linear probes of eight methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from eigenmap.evaluation.classes import evaluate_classes
from eigenmap.fitting.images import fit_images
from eigenmap.model import Eigenmap
from eigenmap.reproduce.encoding import outputs_of
from eigenmap.reproduce.methods import METHODS, Scale, recipe_of
from eigenmap.reproduce.sets import Sets
from eigenmap.training.config import Accelerator

TABLE_1 = tuple(name for name in METHODS if name != "ordered")


class ProbeRow(TypedDict):
    """Accuracy of one method's encoder output on the test images."""

    method: str
    linear: float
    knn: float
    seconds: float


def table_1(
    scale: Scale,
    sets: Sets,
    methods: Sequence[str] = TABLE_1,
    *,
    seed: int = 0,
    device: Accelerator = "auto",
    say: Callable[[str], None] = lambda line: None,
) -> list[ProbeRow]:
    """Train every method and probe its encoder, by closed-form ridge and by a vote of 200 neighbours."""
    rows: list[ProbeRow] = []
    for name in methods:
        say(f"{METHODS[name].title} ...")
        recipe = recipe_of(name, scale)
        model = fit_images(sets.train, recipe=recipe, seed=seed, device=device, progress=False)
        rows.append(_probed(name, model, sets))
    return rows


def _probed(name: str, model: Eigenmap, sets: Sets) -> ProbeRow:
    y, y_test = sets.classes()
    train, test = (outputs_of(model, images, "encoder") for images in (sets.train, sets.test))
    (row,) = evaluate_classes(train, y, test, y_test, dims=[train.shape[1]], shares=(1.0,))
    seconds = float(model.training["seconds"])
    return ProbeRow(method=METHODS[name].title, linear=row["linear"], knn=row["knn"], seconds=seconds)
