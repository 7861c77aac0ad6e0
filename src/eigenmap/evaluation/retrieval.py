"""Retrieval at every code length: mean average precision, precision, and baselines.

A gallery item is relevant to a query if they share at least one label. With rel_r = 1 if the item at rank r
is relevant and P_r = (rel_1 + ... + rel_r) / r, the ranking cut at M gives, averaged over all queries,

    map_over_found@M     sum_{r<=M} P_r rel_r / (relevant items among the first M)    0 if there are none
    map_over_relevant@M  sum_{r<=M} P_r rel_r / (relevant items in the whole gallery) 0 if there are none
    precision@M          (relevant items among the first M) / M

The first is the definition of Deng et al. [1] and ignores what was missed; the second does not (it cannot reach 1 if
more than M items are relevant). A gallery shorter than M is ranked completely; precision@M still divides by M.

[1] Neural Eigenfunctions Are Structured Representation Learners, https://arxiv.org/abs/2210.12637

    rows = retrieval(query_codes, gallery_codes, query_labels, gallery_labels, dims=lengths(256))
    rows[0]   # {"dim": 2, "map_over_found@100": 0.61, "map_over_relevant@100": 0.05, "precision@100": ...}
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.evaluation.ranking import CodesLike, check_codes, codes_as_tensor, device_of, nearest
from eigenmap.evaluation.relevance import Relevance

ScoreRow: TypeAlias = dict[str, float]
"""One length: "dim" and one entry per metric. A list of rows is a table and can be written as JSON."""


def lengths(n_components: int, first: int = 2) -> list[int]:
    """Return the code lengths to report: first, 2 first, 4 first, ... and the full length.

    >>> lengths(48)
    [2, 4, 8, 16, 32, 48]
    """
    dims = []
    dim = whole_number(first, "first")
    while dim < n_components:
        dims.append(dim)
        dim *= 2
    return [*dims, n_components]


@torch.no_grad()
def retrieval(
    queries: CodesLike,
    gallery: CodesLike,
    query_labels: CodesLike,
    gallery_labels: CodesLike,
    dims: Sequence[int],
    top: Sequence[int] = (100, 1000),
    *,
    order: Tensor | None = None,
    drop_self: bool = False,
    block: int | None = None,
    gallery_block: int = 65_536,
    device: torch.device | str | None = None,
    tf32: bool = False,
) -> list[ScoreRow]:
    """Score the ranking of the gallery by the cosine of code prefixes, at each length of `dims`.

    Codes are (n, k) of any scale, NumPy or torch. Labels are a bool matrix (n, n_classes), in which an item may have
    any number of labels, or a vector of class numbers, negative for an item without a label. Equal cosines rank by
    gallery index. The other arguments are those of `ranking.nearest`; with `drop_self`, an item is neither ranked for
    itself nor counted as relevant to itself.
    """
    width = check_codes(queries, gallery, drop_self)
    dims = [whole_number(dim, "dim", 1, width) for dim in dims]
    cuts = [whole_number(cut, "top") for cut in top]
    if not cuts:
        raise EigenmapError("top is empty; give at least one number of results to score")
    place = torch.device(device) if device is not None else device_of(queries)
    for labels, codes, name in (
        (query_labels, queries, "query_labels"),
        (gallery_labels, gallery, "gallery_labels"),
    ):
        if len(labels) != len(codes):
            raise EigenmapError(f"{name} has {len(labels)} entries for {len(codes)} codes; give one per code")
    relevance = Relevance(query_labels, gallery_labels, place)
    rows_at_once = 128 if block is None else whole_number(block, "block")
    totals = relevance.totals(drop_self, rows_at_once, whole_number(gallery_block, "gallery_block"))

    table = []
    for dim in dims:
        ranked = nearest(
            queries,
            gallery,
            max(cuts),
            dim,
            order=order,
            drop_self=drop_self,
            block=block,
            gallery_block=gallery_block,
            device=place,
            tf32=tf32,
        ).indices
        scores = [
            _query_scores(relevance.hits(i, ranked[i : i + rows_at_once]), totals[i : i + rows_at_once], cuts)
            for i in range(0, len(ranked), rows_at_once)
        ]
        table.append(
            ScoreRow(dim=dim) | {name: float(torch.cat([s[name] for s in scores]).mean()) for name in scores[0]}
        )
    return table


def random_features(
    queries: CodesLike,
    gallery: CodesLike,
    query_labels: CodesLike,
    gallery_labels: CodesLike,
    dims: Sequence[int],
    top: Sequence[int] = (100, 1000),
    *,
    draws: int = 10,
    seed: int = 0,
    drop_self: bool = False,
    block: int | None = None,
    gallery_block: int = 65_536,
    device: torch.device | str | None = None,
    tf32: bool = False,
) -> list[ScoreRow]:
    """Score codes with randomly ordered features: the mean over `draws` random subsets of each length.

    Each draw permutes the features once and cuts the result at every length. Each metric has a `<metric>_spread`, the
    sample standard deviation over draws (0 at full length, where there is only one subset).
    """
    width = check_codes(queries, gallery, drop_self)
    dims = [whole_number(dim, "dim", 1, width) for dim in dims]
    generator = torch.Generator().manual_seed(seed)
    drawn: dict[int, list[ScoreRow]] = {dim: [] for dim in dims}
    for draw in range(whole_number(draws, "draws")):
        order = torch.randperm(width, generator=generator)
        cut = [dim for dim in drawn if draw == 0 or dim < width]
        if not cut:
            break
        for row in retrieval(
            queries,
            gallery,
            query_labels,
            gallery_labels,
            cut,
            top,
            order=order,
            drop_self=drop_self,
            block=block,
            gallery_block=gallery_block,
            device=device,
            tf32=tf32,
        ):
            drawn[int(row["dim"])].append(row)
    return [_mean_and_spread(drawn[dim]) for dim in dims]


class PCA(NamedTuple):
    """Principal axes of a set of features."""

    mean: Tensor
    """(d,) float64; zeros if not centred."""
    components: Tensor
    """(d, d) float64 orthonormal columns, the largest variance first."""


@torch.no_grad()
def pca(train_features: CodesLike, centred: bool = True, block: int = 8192) -> PCA:
    """Return principal axes: eigenvectors of E[(x - m)(x - m)^T], m the mean, or 0 if not `centred`; in float64.

    >>> basis = pca(torch.tensor([[0.0, 1.0], [0.0, 3.0]]))
    >>> project(torch.tensor([[5.0, 2.0]]), basis, dim=1).abs().tolist()
    [[0.0]]
    """
    if train_features.ndim != 2 or len(train_features) == 0:
        raise EigenmapError("train_features must be a matrix with at least one row")
    n, d = train_features.shape
    place = device_of(train_features)
    m = torch.zeros(d, dtype=torch.float64, device=place)
    if centred:
        for start in range(0, n, block):
            m += codes_as_tensor(train_features[start : start + block], place, torch.float64).sum(0) / n
    second = torch.zeros(d, d, dtype=torch.float64, device=place)
    for start in range(0, n, block):
        x = codes_as_tensor(train_features[start : start + block], place, torch.float64) - m
        second += x.T @ x / n
    if not bool(torch.isfinite(second).all()):
        raise EigenmapError("train_features contain NaN or infinite values; every feature must be a finite number")
    return PCA(m, torch.linalg.eigh(second).eigenvectors.flip(1))


@torch.no_grad()
def project(features: CodesLike, basis: PCA, dim: int | None = None, block: int = 8192) -> Tensor:
    """Return coordinates of the features along the first `dim` principal axes (default all), float32."""
    d = len(basis.mean)
    dim = d if dim is None else whole_number(dim, "dim", 1, d)
    if features.ndim != 2 or features.shape[1] != d:
        raise EigenmapError(f"features of shape {tuple(features.shape)} do not match principal axes of {d} features")
    axes, place = basis.components[:, :dim], basis.mean.device
    parts = [
        ((codes_as_tensor(features[start : start + block], place, torch.float64) - basis.mean) @ axes).float()
        for start in range(0, len(features), block)
    ]
    return torch.cat(parts) if parts else torch.empty(0, dim, device=place)


def _query_scores(hits: Tensor, n_relevant: Tensor, cuts: Sequence[int]) -> dict[str, Tensor]:
    """Score each query from (b, m) `hits`: whether the item at each rank is relevant."""
    m = hits.shape[1]
    found = hits.cumsum(1)
    rank = torch.arange(1, m + 1, device=hits.device)
    gain = (found.double() / rank * hits).cumsum(1)
    scores = {}
    for cut in cuts:
        last = min(cut, m) - 1
        scores[f"map_over_found@{cut}"] = gain[:, last] / found[:, last].clamp(min=1)
        scores[f"map_over_relevant@{cut}"] = gain[:, last] / n_relevant.clamp(min=1)
        scores[f"precision@{cut}"] = found[:, last].double() / cut
    return scores


def _mean_and_spread(rows: Sequence[ScoreRow]) -> ScoreRow:
    """Combine the rows of several draws."""
    summary = ScoreRow(dim=rows[0]["dim"])
    for name in [name for name in rows[0] if name != "dim"]:
        values = [row[name] for row in rows]
        summary[name] = mean(values)
        summary[f"{name}_spread"] = stdev(values) if len(values) > 1 else 0.0
    return summary
