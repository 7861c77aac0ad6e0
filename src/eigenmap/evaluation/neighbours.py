"""Classification by nearest neighbours of frozen codes, with votes weighted by cosine similarity.

    score(c) = sum over the `n_neighbours` nearest i with label c of exp(cos_i / temperature)

This is the protocol of instance discrimination [1] reported by most self-supervised work, with its usual 200 neighbours
and temperature 0.1.

[1] Wu et al., Unsupervised Feature Learning via Non-Parametric Instance Discrimination,
    https://arxiv.org/abs/1805.01978

    accuracy = knn_accuracy(test_codes, test_labels, train_codes, train_labels, dim=16)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.evaluation.checks import class_numbers
from eigenmap.evaluation.ranking import CodesLike, nearest


@torch.no_grad()
def knn_predict(
    queries: CodesLike,
    gallery: CodesLike,
    gallery_labels: CodesLike,
    *,
    n_neighbours: int = 200,
    temperature: float = 0.1,
    dim: int | None = None,
    drop_self: bool = False,
    block: int | None = None,
    gallery_block: int = 65_536,
    device: torch.device | str | None = None,
    tf32: bool = False,
) -> Tensor:
    """Classify each query by weighted vote: (n_queries,) int64; equal votes go to the lower class number.

    `dim` cuts the codes first; in a gallery of fewer than `n_neighbours` items, all vote. The other arguments are those
    of `ranking.nearest`.
    """
    if not (math.isfinite(temperature) and temperature > 0):
        raise EigenmapError(f"temperature must be a number above 0, not {temperature!r}")
    labels = class_numbers(gallery_labels, len(gallery), "gallery_labels")
    ranked = nearest(
        queries,
        gallery,
        whole_number(n_neighbours, "n_neighbours"),
        dim,
        drop_self=drop_self,
        block=block,
        gallery_block=gallery_block,
        device=device,
        tf32=tf32,
    )
    # Votes only for classes that exist: numbers with large gaps, such as WordNet's, would take gigabytes.
    classes, labels = torch.unique(labels.to(ranked.indices.device), return_inverse=True)
    rows = 1024 if block is None else block
    predicted = []
    for start in range(0, len(ranked.indices), rows):
        indices, cosines = ranked.indices[start : start + rows], ranked.scores[start : start + rows]
        # Relative to the nearest neighbour, so that no temperature overflows; in float64, so that the order of
        # summation, which a GPU does not fix, makes no difference.
        weights = ((cosines.double() - cosines[:, :1].double()) / temperature).exp()
        votes = torch.zeros(len(indices), len(classes), dtype=torch.float64, device=labels.device)
        predicted.append(votes.scatter_add_(1, labels[indices], weights).argmax(1))
    chosen: Tensor = classes[torch.cat(predicted)]
    return chosen


def knn_accuracy(
    queries: CodesLike,
    query_labels: CodesLike,
    gallery: CodesLike,
    gallery_labels: CodesLike,
    *,
    n_neighbours: int = 200,
    temperature: float = 0.1,
    dim: int | None = None,
    drop_self: bool = False,
    block: int | None = None,
    gallery_block: int = 65_536,
    device: torch.device | str | None = None,
    tf32: bool = False,
) -> float:
    """Return the share of queries that `knn_predict` classifies correctly."""
    truth = class_numbers(query_labels, len(queries), "query_labels")
    predicted = knn_predict(
        queries,
        gallery,
        gallery_labels,
        n_neighbours=n_neighbours,
        temperature=temperature,
        dim=dim,
        drop_self=drop_self,
        block=block,
        gallery_block=gallery_block,
        device=device,
        tf32=tf32,
    )
    return float((predicted.cpu() == truth).double().mean())
