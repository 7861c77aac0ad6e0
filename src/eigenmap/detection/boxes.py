"""Boxes (x1, y1, x2, y2) in pixels: overlap, non-maximum suppression, anchors, and offsets from reference boxes.

References:
    [1] Ren, He, Girshick, Sun. Faster R-CNN. NeurIPS 2015.

"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

LARGEST = math.log(1000 / 16)
"""Maximum logarithm of the factor by which a side may grow."""


def box_area(boxes: Tensor) -> Tensor:
    """Return the areas of boxes (n, 4)."""
    return (boxes[:, 2] - boxes[:, 0]).clamp(min=0) * (boxes[:, 3] - boxes[:, 1]).clamp(min=0)


def box_intersection(a: Tensor, b: Tensor) -> Tensor:
    """Return the areas that boxes (n, 4) and (m, 4) have in common as (n, m)."""
    low, high = torch.maximum(a[:, None, :2], b[:, :2]), torch.minimum(a[:, None, 2:], b[:, 2:])
    return (high - low).clamp(min=0).prod(2)


def box_iou(a: Tensor, b: Tensor) -> Tensor:
    """Return the intersection over union of boxes (n, 4) and (m, 4) as (n, m); 0 where both are empty.

    >>> box_iou(torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[1.0, 1, 3, 3]])).tolist()
    [[0.1428571492433548]]
    """
    common = box_intersection(a, b)
    union = box_area(a)[:, None] + box_area(b) - common
    return torch.where(union > 0, common / union.clamp(min=torch.finfo(union.dtype).tiny), 0.0)


def nms(boxes: Tensor, scores: Tensor, overlap: float) -> Tensor:
    """Return the indices of the boxes kept by greedy non-maximum suppression, best first; equal scores by index.

    A box is kept if no better kept box overlaps it by more than `overlap`. Since a box depends only on better ones,
    applying this rule repeatedly to all boxes at once converges, in as many rounds as the longest chain of overlaps.
    """
    order = torch.argsort(scores, descending=True, stable=True)
    sorted_boxes = boxes[order]
    suppresses = torch.triu(box_iou(sorted_boxes, sorted_boxes) > overlap, diagonal=1)
    kept = torch.ones(len(boxes), dtype=torch.bool, device=boxes.device)
    while True:
        new = ~(suppresses & kept[:, None]).any(0)
        if bool((new == kept).all()):
            return order[kept]
        kept = new


def nms_by_class(boxes: Tensor, scores: Tensor, classes: Tensor, overlap: float) -> Tensor:
    """Return the boxes kept by `nms` within each class, best first; boxes of different classes are shifted apart."""
    if len(boxes) == 0:
        return torch.empty(0, dtype=torch.long, device=boxes.device)
    apart = (boxes.max() - boxes.min().clamp(max=0) + 1) * classes.to(boxes)
    return nms(boxes + apart[:, None], scores, overlap)


def anchors(
    height: int, width: int, stride: float, sizes: Sequence[int], ratios: Sequence[float], device: torch.device
) -> Tensor:
    """Return anchors around the corner of every cell of a feature map, cell by cell: (height * width * shapes, 4)."""
    shapes = torch.tensor(
        [
            [-0.5 * size / ratio**0.5, -0.5 * size * ratio**0.5, 0.5 * size / ratio**0.5, 0.5 * size * ratio**0.5]
            for size in sizes
            for ratio in ratios
        ],
        device=device,
    )
    y, x = torch.meshgrid(
        torch.arange(height, device=device) * stride, torch.arange(width, device=device) * stride, indexing="ij"
    )
    places = torch.stack([x, y, x, y], dim=2).reshape(-1, 1, 4)
    return (places + shapes).reshape(-1, 4)


def encode(boxes: Tensor, references: Tensor, weights: Sequence[float] = (1, 1, 1, 1)) -> Tensor:
    """Return offsets of boxes from references: shifts in units of their sides, and log ratios of the sides [1]."""
    size, own = references[:, 2:] - references[:, :2], boxes[:, 2:] - boxes[:, :2]
    shift = ((boxes[:, :2] + boxes[:, 2:]) - (references[:, :2] + references[:, 2:])) / 2 / size
    return torch.cat([shift, (own / size).log()], dim=1) * torch.tensor(weights, device=boxes.device)


def decode(deltas: Tensor, references: Tensor, weights: Sequence[float] = (1, 1, 1, 1)) -> Tensor:
    """Apply offsets to references; the inverse of `encode`."""
    deltas = deltas.float() / torch.tensor(weights, device=deltas.device)
    size, centre = references[:, 2:] - references[:, :2], (references[:, :2] + references[:, 2:]) / 2
    centre = centre + deltas[:, :2] * size
    half = size * deltas[:, 2:].clamp(max=LARGEST).exp() / 2
    return torch.cat([centre - half, centre + half], dim=1)


def clip(boxes: Tensor, height: int, width: int) -> Tensor:
    """Clip boxes to the image."""
    x, y = boxes[:, 0::2].clamp(0, width), boxes[:, 1::2].clamp(0, height)
    return torch.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], dim=1)
