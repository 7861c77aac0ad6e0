"""Comparison of a model's ordered code with four baselines, each scored at every length.

    scores = compare(model, gallery, queries, draws=10)
    scores["ours"][0]    # {"dim": 2, "map_over_found@100": ..., ...}, a row of `retrieval`

- ours: the ordered code of the model.
- random: the projector's outputs in random order, mean and spread over draws.
- encoder-pca: principal components of the encoder's output, centred.
- pixel-pca: principal components of the pixels, centred.
- pixels: the pixels as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.data import ImageSet
from eigenmap.data.images.labels import Labels
from eigenmap.evaluation.ranking import CodesLike
from eigenmap.evaluation.retrieval import ScoreRow, lengths, pca, project, random_features, retrieval
from eigenmap.model import Eigenmap
from eigenmap.networks import code_rows

TOP = (100, 1000)
DRAWS = 10
MOST_PIXELS = 4096
"""Maximum number of values per image for which principal components of pixels are computed."""


def compare(
    model: Eigenmap,
    gallery: ImageSet,
    queries: ImageSet,
    top: Sequence[int] = TOP,
    *,
    pixels: bool = True,
    draws: int = 0,
    seed: int = 0,
) -> dict[str, list[ScoreRow]]:
    """Score the ordered code and the baselines; the network sees every image once.

    Args:
        model: a model of images.
        gallery: labelled images to search in.
        queries: labelled images to search for.
        top: number of results that are scored.
        pixels: whether to score pixels and their principal components, which is slow for large images.
        draws: random orders of the projector's outputs to average over; 0 leaves this baseline out.
        seed: seed of the draws.

    """
    truth = same_classes(queries, gallery)
    (query_features, query_psi), (features, psi) = (
        network_outputs(model, queries.pixels),
        network_outputs(model, gallery.pixels),
    )
    axes = pca(features)
    codes: dict[str, tuple[CodesLike, CodesLike]] = {
        "ours": (_ordered(model, query_features, query_psi), _ordered(model, features, psi)),
        "encoder-pca": (project(query_features, axes), project(features, axes)),
    }
    if pixels:
        query_flat, flat = (images.pixels.flatten(1).float() / 255 for images in (queries, gallery))
        axes = pca(flat)
        codes["pixel-pca"] = (project(query_flat, axes), project(flat, axes))
    scores = {key: retrieval(*pair, *truth, lengths(pair[1].shape[1]), top) for key, pair in codes.items()}
    if pixels:
        scores["pixels"] = retrieval(query_flat, flat, *truth, [flat.shape[1]], top)
    if draws:
        scores["random"] = random_features(query_psi, psi, *truth, lengths(psi.shape[1]), top, draws=draws, seed=seed)
    return scores


def compare_random(
    model: Eigenmap,
    gallery: ImageSet,
    queries: ImageSet,
    top: Sequence[int] = TOP,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[ScoreRow]:
    """Score only the projector's raw outputs in random order, with the spread over draws."""
    (_, psi), (_, query_psi) = network_outputs(model, gallery.pixels), network_outputs(model, queries.pixels)
    truth = same_classes(queries, gallery)
    return random_features(query_psi, psi, *truth, lengths(psi.shape[1]), top, draws=draws, seed=seed)


@torch.inference_mode()
def network_outputs(model: Eigenmap, pixels: Tensor, batch_size: int = 256) -> tuple[Tensor, Tensor]:
    """Return the outputs of encoder and projector for images, on the CPU."""
    parts = [model.network(model.image(batch.to(model.device))) for batch in torch.split(pixels, batch_size)]
    features, psi = (torch.cat(side).float().cpu() for side in zip(*parts, strict=True))
    return features, psi


def _ordered(model: Eigenmap, features: Tensor, psi: Tensor) -> Tensor:
    """Return the codes of these outputs, as `model.encode` computes them."""
    rows = code_rows(features, psi, model.source)
    return torch.cat([model.alignment.apply(part) for part in torch.split(rows, 256)])


def split_queries(images: ImageSet, most: int = 1000, share: float = 0.2, seed: int = 0) -> tuple[ImageSet, ImageSet]:
    """Split one set into gallery and queries: a random fifth, at most 1,000 images, becomes the queries.

    >>> images = ImageSet(torch.zeros(10, 1, 8, 8, dtype=torch.uint8), [str(i) for i in range(10)])
    >>> [len(part) for part in split_queries(images)]
    [8, 2]
    """
    if len(images) < 2:
        raise EigenmapError("A single image cannot be split into gallery and queries: give more images.")
    asking = min(most, max(1, round(share * len(images))))
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    return images.subset(order[asking:].sort().values), images.subset(order[:asking].sort().values)


def same_classes(queries: ImageSet, gallery: ImageSet) -> tuple[Tensor, Tensor]:
    """Return the labels of both sets as matrices with the columns of the gallery."""
    asked, offered = labels_of(queries), labels_of(gallery)
    theirs = asked.in_classes(offered.names).matrix
    if not bool(theirs.any()):
        raise EigenmapError("Queries and gallery have no class in common, so retrieval cannot be scored.")
    return theirs, offered.matrix


def labels_of(images: ImageSet) -> Labels:
    """Return the labels, which scoring requires."""
    if images.labels is None:
        raise EigenmapError("These images have no labels, so retrieval cannot be scored.")
    return images.labels


def affordable_pixels(images: ImageSet) -> bool:
    """Tell whether principal components of pixels are affordable: up to 64 x 64 pixels, or 36 x 36 in colour."""
    return images.pixels[0].numel() <= MOST_PIXELS
