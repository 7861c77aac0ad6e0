"""RoIAlign against a slow float64 loop over regions, cells and samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from eigenmap.detection.roi_align import roi_align


def bilinear(plane: np.ndarray, y: float, x: float) -> float:
    """The value between four cells; 0 more than a cell outside, the nearest value within it."""
    height, width = plane.shape
    if y < -1 or y > height or x < -1 or x > width:
        return 0.0
    y, x = max(y, 0.0), max(x, 0.0)
    y0, x0 = int(y), int(x)
    if y0 >= height - 1:
        y0 = y1 = height - 1
        y = float(y0)
    else:
        y1 = y0 + 1
    if x0 >= width - 1:
        x0 = x1 = width - 1
        x = float(x0)
    else:
        x1 = x0 + 1
    b, a = y - y0, x - x0
    return float(
        (1 - b) * ((1 - a) * plane[y0, x0] + a * plane[y0, x1]) + b * ((1 - a) * plane[y1, x0] + a * plane[y1, x1])
    )


def slow(features: np.ndarray, rois: np.ndarray, side: int, scale: float, samples: int) -> np.ndarray:
    out = np.zeros((len(rois), features.shape[1], side, side))
    for n, (image, *box) in enumerate(rois):
        x1, y1, x2, y2 = (value * scale - 0.5 for value in box)
        height, width = (y2 - y1) / side, (x2 - x1) / side
        ny = samples if samples > 0 else max(1, math.ceil(height))
        nx = samples if samples > 0 else max(1, math.ceil(width))
        for c in range(features.shape[1]):
            for p in range(side):
                for q in range(side):
                    values = [
                        bilinear(
                            features[int(image), c],
                            y1 + p * height + (i + 0.5) * height / ny,
                            x1 + q * width + (j + 0.5) * width / nx,
                        )
                        for i in range(ny)
                        for j in range(nx)
                    ]
                    out[n, c, p, q] = sum(values) / len(values)
    return out


ROIS = np.array(
    [
        [0, 0.0, 0.0, 32.0, 24.0],
        [1, 5.0, 3.0, 21.0, 9.5],
        [1, -6.0, -9.0, 4.0, 50.0],  # beyond the border
        [0, 10.0, 10.0, 10.5, 10.25],  # smaller than a cell
        [0, 60.0, 60.0, 80.0, 90.0],  # outside
    ]
)


@pytest.mark.parametrize("samples", [0, 1, 2, 3])
@pytest.mark.parametrize("side", [1, 3])
def test_regions_are_those_of_a_loop(samples: int, side: int) -> None:
    features = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3, 6, 8)))
    found = roi_align(features, torch.from_numpy(ROIS), side, 0.25, samples)
    np.testing.assert_allclose(found.numpy(), slow(features.numpy(), ROIS, side, 0.25, samples), atol=1e-12)


def test_gradients_reach_the_features() -> None:
    features = torch.rand(2, 1, 5, 5, dtype=torch.float64, requires_grad=True)
    rois = torch.tensor([[0, 2.0, 3.0, 12.0, 13.0], [1, 0.0, 0.0, 7.0, 18.0]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: roi_align(x, rois, 2, 0.25), (features,))


def test_no_regions() -> None:
    assert roi_align(torch.rand(1, 2, 4, 4), torch.empty(0, 5), 3).shape == (0, 2, 3, 3)


def test_a_linear_map_is_read_at_the_centres_of_cells() -> None:
    plane = torch.arange(16.0).repeat(16, 1)[None, None]  # value = column
    (found,) = roi_align(plane, torch.tensor([[0, 4.0, 4.0, 12.0, 12.0]]), 4)[:, 0]
    assert found[0].tolist() == pytest.approx([4.5, 6.5, 8.5, 10.5])
