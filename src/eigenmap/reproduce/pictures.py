"""Pictures of the paper: results at five code lengths, images that excite features, and images made to excite them.

All three use the projector's raw output, in its own order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.data import ImageSet
from eigenmap.evaluation.excitation import STEPS, excite, extremes
from eigenmap.figures.answers import LENGTHS, RESULTS, answers_by_codes, first_of_each_class
from eigenmap.figures.excitation import MadeFeature, made_figure
from eigenmap.figures.gallery import FeatureRow, answer_grid, feature_grid, picture_of
from eigenmap.model import Eigenmap
from eigenmap.reproduce.encoding import outputs_of
from eigenmap.reproduce.methods import Scale, recipe_of
from eigenmap.reproduce.runs import Runs
from eigenmap.reproduce.searches import Search

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEATURES, QUERIES = 8, 4


def ordered_model(scale: Scale, runs: Runs, saved: Path | None) -> Eigenmap:
    """Load a saved model, or train the paper's ordered form."""
    if saved is None:
        runs.say("the paper's, ordered ...")
        return runs.model(recipe_of("ordered", scale))
    model = Eigenmap.load(saved)
    if (model.image.size, model.image.channels) != (runs.sets.test.size, runs.sets.test.channels):
        raise EigenmapError(
            f"{saved} takes images of {model.image.size} pixels in {model.image.channels} channels, and those here "
            f"have {runs.sets.test.size} in {runs.sets.test.channels}: choose the scale it was trained at."
        )
    model.network.to("cuda" if runs.device != "cpu" and torch.cuda.is_available() else "cpu")
    return model


def result_grid(
    model: Eigenmap, search: Search, queries: int = QUERIES
) -> tuple[Figure, list[list[dict[str, object]]]]:
    """Draw the ten nearest images by the first 4, 8, 16, 32 and 64 outputs; also return their names."""
    asked = search.queries.subset(first_of_each_class(search.queries, most=queries))
    codes, gallery = (outputs_of(model, images, "projector") for images in (asked, search.gallery))
    answers = answers_by_codes(codes, gallery, search.gallery, asked, LENGTHS, RESULTS)
    found: list[list[dict[str, object]]] = [
        [
            {"query": answer.label, "dim": dim, "labels": [hit.label for hit in hits], "right": _right(hits)}
            for dim, hits in answer.hits.items()
        ]
        for answer in answers
    ]
    return answer_grid(answers), found


def exciting_grid(model: Eigenmap, images: ImageSet, features: int = FEATURES) -> tuple[Figure, list[list[str]]]:
    """Draw the ten images with the largest value of each leading output; also return their names."""
    psi = outputs_of(model, images, "projector")[:, :features]
    most = extremes(psi.numpy(), RESULTS).most
    rows = [
        FeatureRow(str(number + 1), "", [[picture_of(images.pixels[row].numpy()) for row in best.tolist()]])
        for number, best in enumerate(most)
    ]
    names = [[images.ids[row] for row in best.tolist()] for best in most]
    return feature_grid(rows, ["largest values"]), names


def optimised_grid(
    model: Eigenmap,
    steps: int = STEPS,
    seed: int = 0,
    features: int = FEATURES,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[Figure, list[tuple[float, float]]]:
    """Draw images made from noise for the largest and smallest value of each leading output, with these values."""
    count = min(features, model.network.n_components)
    ends = [
        excite(model, range(count), sign=sign, steps=steps, seed=seed, progress=progress, values_of=raw_outputs)
        for sign in (1, -1)
    ]
    made = [
        MadeFeature(
            number + 1,
            (picture_of(ends[0].pixels[number].numpy()), picture_of(ends[1].pixels[number].numpy())),
            (float(ends[0].values[number]), float(ends[1].values[number])),
        )
        for number in range(count)
    ]
    return made_figure(made), [feature.values for feature in made]


def raw_outputs(model: Eigenmap, images: Tensor, features: Sequence[int]) -> Tensor:
    """Return psi_j of the j-th of `features` for the j-th image in [0, 1], differentiable."""
    settings = model.image.standardisation
    mean, std = (
        torch.tensor(numbers, device=images.device)[:, None, None] for numbers in (settings.mean, settings.std)
    )
    _, psi = model.network((images - mean) / std)
    raw: Tensor = psi[torch.arange(len(images)), list(features)]
    return raw


def _right(hits: Sequence[object]) -> float:
    """Return the share of results that share a class with the query."""
    return sum(bool(getattr(hit, "right", False)) for hit in hits) / max(1, len(hits))
