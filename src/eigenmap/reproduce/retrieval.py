"""Retrieval figure: mAP by code length, for codes in the network's own order and for random features."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eigenmap.evaluation.retrieval import ScoreRow, lengths, random_features, retrieval
from eigenmap.recipes import Recipe
from eigenmap.reproduce.encoding import outputs_of
from eigenmap.reproduce.methods import METHODS, Scale, recipe_of
from eigenmap.reproduce.runs import Runs
from eigenmap.reproduce.searches import Search, own_search
from eigenmap.reproduce.sets import Sets
from eigenmap.training.config import Accelerator

DRAWS = 10
COMPARED = ("ordered", "unordered", "scl")
SMALL_K: dict[Scale, tuple[int, int]] = {"paper": (128, 8192), "small": (128, 8192), "tiny": (8, 32)}
"""Outputs and hidden units of the projector in the variant with few features."""


def retrieval_recipe(method: str, scale: Scale, small_k: bool = False) -> Recipe:
    """Return the recipe of a run; at the paper's scale all have 4,096 features, as its retrieval model."""
    recipe = recipe_of(method, scale)
    k, hidden = SMALL_K[scale] if small_k else (recipe_of("ordered", scale).n_components, recipe.hidden)
    return recipe.but(n_components=k, hidden=hidden if small_k or scale != "paper" else k)


def retrieval_scores(
    scale: Scale, runs: Runs, searches: Sequence[Search], small_k: bool = False
) -> dict[str, dict[str, list[ScoreRow]]]:
    """Score raw projector outputs by set and method: ordered ones in their own order, the others in random order.

    A method whose training collapses has no rows.
    """
    scores: dict[str, dict[str, list[ScoreRow]]] = {search.name: {} for search in searches}
    for method in COMPARED:
        title = METHODS[method].title
        runs.say(f"{title} ...")
        model = runs.model_unless_collapsed(retrieval_recipe(method, scale, small_k))
        for search in searches:
            if model is None:
                scores[search.name][title] = []
                continue
            query, gallery = (outputs_of(model, images, "projector") for images in (search.queries, search.gallery))
            at, top = lengths(query.shape[1], first=4), (search.top,)
            if method == "ordered":
                scores[search.name][title] = retrieval(query, gallery, *search.truth(), at, top)
            else:
                scores[search.name][title] = random_features(
                    query, gallery, *search.truth(), at, top, draws=DRAWS, seed=runs.seed
                )
    return scores


def figure_retrieval(
    scale: Scale,
    sets: Sets,
    *,
    top: int = 1000,
    seed: int = 0,
    device: Accelerator = "auto",
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, list[ScoreRow]]:
    """Score the methods, with test images as queries and training images as the gallery."""
    search = own_search(sets, top)
    return retrieval_scores(scale, Runs(sets, seed, device, say=say), [search])[search.name]
