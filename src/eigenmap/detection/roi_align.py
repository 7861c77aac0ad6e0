"""RoIAlign: features of regions as averages of bilinear samples.

References:
    [1] He, Gkioxari, Dollar, Girshick. Mask R-CNN. ICCV 2017.

"""

from __future__ import annotations

import torch
from torch import Tensor


def roi_align(features: Tensor, rois: Tensor, side: int, scale: float = 1.0, samples: int = 0) -> Tensor:
    """Pool regions of feature maps (B, C, H, W) to (n, C, side, side).

    Cell (p, q) of a region is the mean of the features at a grid of points inside the cell. A region x1 ... x2 of the
    image covers scale * x1 - 1/2 ... scale * x2 - 1/2 of the map, whose values lie at integer coordinates. Points
    outside the map take the nearest border value, or 0 if they are more than one cell outside.

    Args:
        features: feature maps of a batch of images.
        rois: (n, 5): index of the image, then x1, y1, x2, y2 in image pixels.
        side: cells per side of the result.
        scale: map cells per image pixel.
        samples: points per cell and axis; 0 means one per map cell covered.

    """
    places = rois[:, 1:] * scale - 0.5
    size = places[:, 2:] - places[:, :2]
    out = features.new_zeros(len(rois), features.shape[1], side, side)
    if samples > 0:
        counts = torch.full((len(rois), 2), samples, device=rois.device)
    else:
        counts = (size / side).ceil().long().clamp(min=1)
    for nx, ny in torch.unique(counts, dim=0).tolist():
        rows = ((counts[:, 0] == nx) & (counts[:, 1] == ny)).nonzero().flatten()
        out = out.index_copy(0, rows, _pooled(features, rois[rows, 0].long(), places[rows], side, nx, ny))
    return out


def _pooled(features: Tensor, images: Tensor, places: Tensor, side: int, nx: int, ny: int) -> Tensor:
    height, width = features.shape[2:]
    x, x_weight = _axis(places[:, 0], places[:, 2], side, nx, width)
    y, y_weight = _axis(places[:, 1], places[:, 3], side, ny, height)
    total = None
    for j in range(2):
        for i in range(2):
            weight = y_weight[j][:, :, None] * x_weight[i][:, None, :]
            taken = features[images[:, None, None], :, y[j][:, :, None], x[i][:, None, :]]
            part = taken * weight[..., None].to(features)
            total = part if total is None else total + part
    assert total is not None
    n, channels = len(images), features.shape[1]
    cells = total.reshape(n, side, ny, side, nx, channels).mean((2, 4))
    return cells.permute(0, 3, 1, 2)


def _axis(
    low: Tensor, high: Tensor, side: int, count: int, length: int
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return the two map cells of each sample along one axis, and their weights: (n, side * count) each."""
    grid = (torch.arange(side * count, device=low.device, dtype=low.dtype) + 0.5) / (side * count)
    place = low[:, None] + (high - low)[:, None] * grid
    inside = (place >= -1) & (place <= length)
    place = place.clamp(0, length - 1)
    first = place.floor().long()
    second = (first + 1).clamp(max=length - 1)
    share = place - first
    return (first, second), ((1 - share) * inside, share * inside)
