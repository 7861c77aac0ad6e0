"""Query results at several code lengths, for `gallery.answer_grid` and the report.

chosen = first_of_each_class(queries, most=4)
answers = find_answers(model, gallery, queries.subset(chosen), dims=(4, 8, 16, 32, 64))
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from eigenmap.data import ImageSet
from eigenmap.evaluation.ranking import nearest
from eigenmap.figures.gallery import Answers, Hit, picture_of
from eigenmap.model import Eigenmap

LENGTHS = (4, 8, 16, 32, 64)
"""Code lengths of the paper's figure 1."""
RESULTS = 10


def find_answers(
    model: Eigenmap, gallery: ImageSet, queries: ImageSet, dims: Sequence[int] = LENGTHS, top: int = RESULTS
) -> list[Answers]:
    """Return the nearest gallery items for every query, at each length that the model has."""
    codes, gallery_codes = (torch.from_numpy(model.encode(images.pixels)) for images in (queries, gallery))
    return answers_by_codes(codes, gallery_codes, gallery, queries, dims, top)


def answers_by_codes(
    codes: Tensor,
    gallery_codes: Tensor,
    gallery: ImageSet,
    queries: ImageSet,
    dims: Sequence[int] = LENGTHS,
    top: int = RESULTS,
) -> list[Answers]:
    """Return the nearest gallery items for every query, by prefixes of the given codes."""
    k = codes.shape[1]
    dims = [dim for dim in dims if dim <= k] or [k]
    ranked = {dim: nearest(codes, gallery_codes, top, dim).indices.tolist() for dim in dims}
    return [
        Answers(
            picture_of(queries.pixels[query].numpy()),
            name_of(queries, query),
            {dim: [_hit(gallery, item, queries, query) for item in ranked[dim][query]] for dim in dims},
        )
        for query in range(len(queries))
    ]


def first_of_each_class(images: ImageSet, most: int) -> list[int]:
    """Return the first image of up to `most` evenly spread classes; without labels, evenly spread images.

    Chosen by class and position, never by the results.
    """
    if images.labels is None:
        return _spread(len(images), most)
    matrix = images.labels.matrix
    first = [int(matrix[:, c].int().argmax()) for c in range(matrix.shape[1]) if bool(matrix[:, c].any())]
    distinct = list(dict.fromkeys(first)) or list(range(len(images)))
    return [distinct[place] for place in _spread(len(distinct), most)]


def name_of(images: ImageSet, row: int) -> str:
    """Return the classes of an image, or its file name if they are unknown."""
    if images.labels is None or not bool(images.labels.matrix[row].any()):
        return images.ids[row]
    return ", ".join(images.labels.names[c] for c in images.labels.matrix[row].nonzero().flatten().tolist())


def _hit(gallery: ImageSet, item: int, queries: ImageSet, query: int) -> Hit:
    right: bool | None = None
    if gallery.labels is not None and queries.labels is not None:
        theirs = {gallery.labels.names[c] for c in gallery.labels.matrix[item].nonzero().flatten().tolist()}
        mine = {queries.labels.names[c] for c in queries.labels.matrix[query].nonzero().flatten().tolist()}
        right = bool(mine & theirs)
    return Hit(picture_of(gallery.pixels[item].numpy()), name_of(gallery, item), right)


def _spread(n: int, most: int) -> list[int]:
    """Return at most `most` evenly spread positions out of n.

    >>> _spread(10, 4), _spread(2, 4)
    ([0, 3, 6, 9], [0, 1])
    """
    most = min(n, most)
    return [round(i * (n - 1) / max(1, most - 1)) for i in range(most)]
