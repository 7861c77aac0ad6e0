"""Monitoring of kNN accuracy during training on labelled images; training does not use the labels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from eigenmap.augment.views import TwoViews
from eigenmap.core.errors import EigenmapError
from eigenmap.core.rows import spread
from eigenmap.data import ImageSet
from eigenmap.evaluation.neighbours import knn_accuracy

MONITORED_IMAGES = 5_000
"""Number of training images among which neighbours are searched."""


def classes_of(data: ImageSet) -> Tensor:
    """Return the class number of every image, or -1 without a label."""
    if data.labels is None:
        raise EigenmapError("The images have no labels to monitor: use class folders, or leave monitoring off.")
    return data.labels.to_integers()


def knn_monitor(
    pixels: Tensor,
    classes: Tensor,
    train_rows: Tensor,
    held_rows: Tensor,
    views: TwoViews,
    device: torch.device,
    aspects: Tensor | None = None,
) -> Callable[[nn.Module, int], dict[str, float]]:
    """Classify held-out images by their nearest training images, compared by encoder features of plain views."""
    train_rows, held_rows = (rows[classes[rows] >= 0] for rows in (train_rows, held_rows))
    if len(train_rows) == 0 or len(held_rows) == 0:
        raise EigenmapError("Too few images have a label to monitor: label more of them, or leave monitoring off.")
    train_rows = train_rows[spread(len(train_rows), MONITORED_IMAGES)]

    def features(network: nn.Module, rows: Tensor) -> Tensor:
        parts = torch.split(rows, 512)
        shapes = [None if aspects is None else aspects[part] for part in parts]
        plain = (views.plain(pixels[part].to(device), shape) for part, shape in zip(parts, shapes, strict=True))
        return torch.cat([network(view)[0] for view in plain])

    def knn(network: nn.Module, step: int) -> dict[str, float]:
        queries, gallery = features(network, held_rows), features(network, train_rows)
        return {"knn": knn_accuracy(queries, classes[held_rows], gallery, classes[train_rows])}

    return knn
