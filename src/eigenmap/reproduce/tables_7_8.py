"""Tables 7 and 8: short codes of the paper's ordered form and principal components of SCL."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from eigenmap.evaluation.retrieval import ScoreRow, pca, project, random_features, retrieval
from eigenmap.model import Eigenmap
from eigenmap.reproduce.encoding import outputs_of
from eigenmap.reproduce.methods import Scale
from eigenmap.reproduce.retrieval import DRAWS, retrieval_recipe
from eigenmap.reproduce.runs import Runs
from eigenmap.reproduce.searches import Search

LENGTHS = (4, 8, 16, 32)
ROWS = ORDERED, PCA, CENTRED, RANDOM, DEFAULT = (
    "the paper's, ordered",
    "SCL + PCA",
    "SCL + centred PCA",
    "SCL, random features",
    "SCL, our aligned code",
)
"""Rows of the tables. The authors' principal components are not centred; the usual, centred ones are listed too."""

Scores = dict[str, dict[str, list[ScoreRow]]]


def tables_7_8(scale: Scale, runs: Runs, searches: Sequence[Search]) -> Scores:
    """Score codes of 4 to 32 features by set and method; components are computed from training images.

    Codes of a network whose training collapses have no rows.
    """
    scores: Scores = {search.name: {name: [] for name in ROWS} for search in searches}
    runs.say("the paper's, ordered ...")
    model = runs.model_unless_collapsed(retrieval_recipe("ordered", scale))
    if model is not None:
        for search in searches:
            query, gallery = _projected(model, search)
            scores[search.name][ORDERED] = retrieval(query, gallery, *search.truth(), _lengths(query), (search.top,))
    runs.say("SCL ...")
    model = runs.model_unless_collapsed(retrieval_recipe("scl", scale))
    if model is None:
        return scores
    train = outputs_of(model, runs.sets.train, "projector")
    bases = {PCA: pca(train, centred=False), CENTRED: pca(train)}
    for search in searches:
        query, gallery = _projected(model, search)
        truth, at, top = search.truth(), _lengths(query), (search.top,)
        mine = scores[search.name]
        for name, basis in bases.items():
            mine[name] = retrieval(project(query, basis), project(gallery, basis), *truth, at, top)
        mine[RANDOM] = random_features(query, gallery, *truth, at, top, draws=DRAWS, seed=runs.seed)
        codes, others = (torch.from_numpy(model.encode(each.pixels)) for each in (search.queries, search.gallery))
        mine[DEFAULT] = retrieval(codes, others, *truth, _lengths(codes), top)
    return scores


def _projected(model: Eigenmap, search: Search) -> tuple[Tensor, Tensor]:
    return outputs_of(model, search.queries, "projector"), outputs_of(model, search.gallery, "projector")


def _lengths(codes: Tensor) -> list[int]:
    return [length for length in LENGTHS if length <= codes.shape[1]]
