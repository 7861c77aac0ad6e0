"""Retrieval figure: mAP by code length, of codes in the network's own order and of random features."""

from __future__ import annotations

from collections.abc import Callable

from eigenmap.evaluation.retrieval import ScoreRow, lengths, random_features, retrieval
from eigenmap.fitting.images import fit_images
from eigenmap.reproduce.encoding import outputs_of
from eigenmap.reproduce.methods import METHODS, Scale, recipe_of
from eigenmap.reproduce.sets import Sets
from eigenmap.training.config import Accelerator

DRAWS = 10


def figure_retrieval(
    scale: Scale,
    sets: Sets,
    *,
    top: int = 1000,
    seed: int = 0,
    device: Accelerator = "auto",
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, list[ScoreRow]]:
    """Score raw projector outputs: prefixes of ordered ones, ten draws of random features of the others."""
    assert sets.train.labels is not None and sets.test.labels is not None
    truth = sets.test.labels.in_classes(sets.train.labels.names).matrix, sets.train.labels.matrix
    scores = {}
    for name in ("ordered", "unordered", "scl"):
        say(f"{METHODS[name].title} ...")
        recipe = recipe_of(name, scale)
        model = fit_images(sets.train, recipe=recipe, seed=seed, device=device, progress=False)
        query, gallery = (outputs_of(model, images, "projector") for images in (sets.test, sets.train))
        at = lengths(query.shape[1], first=4)
        if name == "ordered":
            scores[METHODS[name].title] = retrieval(query, gallery, *truth, at, (top,))
        else:
            scores[METHODS[name].title] = random_features(query, gallery, *truth, at, (top,), draws=DRAWS, seed=seed)
    return scores
