"""Every pixel operation against an independent reference: PIL, colorsys, scipy, or a loop from the definition."""

from __future__ import annotations

import colorsys
import math

import numpy as np
import pytest
import scipy.ndimage
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from eigenmap.augment import pixels
from eigenmap.augment.policies import Interpolation

RESAMPLING = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def images(batch: int = 4, channels: int = 3, height: int = 12, width: int = 12, seed: int = 0) -> Tensor:
    return torch.rand(batch, channels, height, width, generator=torch.Generator().manual_seed(seed))


def to_pil(image: Tensor) -> Image.Image:
    return Image.fromarray((image * 255).round().byte().permute(1, 2, 0).numpy())


def from_pil(image: Image.Image) -> Tensor:
    array = torch.from_numpy(np.array(image)).float() / 255
    return array.permute(2, 0, 1) if array.ndim == 3 else array[None]


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(5, 7), (12, 12), (31, 20)])
@pytest.mark.parametrize("shape", [(16, 11), (40, 33)])
def test_crop_is_pil_resize_of_a_box(
    interpolation: Interpolation, size: tuple[int, int], shape: tuple[int, int]
) -> None:
    height, width = shape
    x = images(4, 2, height, width)
    boxes = torch.tensor([[0.5, 0.5, 1, 1], [0.4, 0.6, 0.5, 0.7], [0.2, 0.8, 0.3, 0.35], [0.85, 0.15, 0.3, 0.3]])
    out = pixels.crop(x, boxes, size, interpolation)
    for b, (cy, cx, h, w) in enumerate(boxes.double().tolist()):
        box = ((cx - w / 2) * width, (cy - h / 2) * height, (cx + w / 2) * width, (cy + h / 2) * height)
        box = tuple(min(max(edge, 0), limit) for edge, limit in zip(box, (width, height) * 2, strict=True))
        for c in range(2):
            picture = Image.fromarray(x[b, c].numpy())
            resized = picture.resize((size[1], size[0]), RESAMPLING[interpolation], box=box)
            expected = torch.from_numpy(np.array(resized)).clamp(0, 1)
            torch.testing.assert_close(out[b, c], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_whole_box_is_the_identity_and_negative_width_the_mirror_image(interpolation: Interpolation) -> None:
    x = images()
    whole = torch.tensor([0.5, 0.5, 1.0, 1.0]).repeat(4, 1)
    assert torch.equal(pixels.crop(x, whole, (12, 12), interpolation), x)
    mirrored = whole * torch.tensor([1.0, 1.0, 1.0, -1.0])
    assert torch.equal(pixels.crop(x, mirrored, (12, 12), interpolation), x.flip(3))


def test_each_image_has_its_own_box() -> None:
    x = images(1).repeat(2, 1, 1, 1)
    boxes = torch.tensor([[0.25, 0.25, 0.5, 0.5], [0.75, 0.75, 0.5, -0.5]])
    out = pixels.crop(x, boxes, (6, 6), "bilinear")
    torch.testing.assert_close(out[0], x[0, :, :6, :6])
    torch.testing.assert_close(out[1], x[0, :, 6:, 6:].flip(2))


def test_crop_of_one_pixel() -> None:
    x = images(2, 3, 1, 1)
    boxes = torch.tensor([[0.5, 0.5, 1, 1], [0.4, 0.6, 0.3, -0.2]])
    for interpolation in ("bilinear", "bicubic"):
        out = pixels.crop(x, boxes, (4, 4), interpolation)
        torch.testing.assert_close(out, x.expand(2, 3, 4, 4), rtol=0, atol=1e-6)


def reflect(position: float, length: int) -> float:
    """Mirror a coordinate at the outer edges of the first and the last pixel until it lies between them."""
    position = abs(position + 0.5) % (2 * length)
    position = min(position, 2 * length - position) - 0.5
    return min(max(position, 0.0), length - 1.0)


def slow_rotated_crop(image: np.ndarray, box: list[float], degrees: float, size: int) -> np.ndarray:
    height, width = image.shape
    cy, cx, h, w = box
    angle = math.radians(degrees)
    out = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            right = ((j + 0.5) / size - 0.5) * w * width
            down = ((i + 0.5) / size - 0.5) * h * height
            x = cx * width + math.cos(angle) * right - math.sin(angle) * down - 0.5
            y = cy * height + math.sin(angle) * right + math.cos(angle) * down - 0.5
            x, y = reflect(x, width), reflect(y, height)
            x0, y0 = min(int(x), max(width - 2, 0)), min(int(y), max(height - 2, 0))
            x1, y1 = min(x0 + 1, width - 1), min(y0 + 1, height - 1)
            top = image[y0, x0] * (1 - (x - x0)) + image[y0, x1] * (x - x0)
            bottom = image[y1, x0] * (1 - (x - x0)) + image[y1, x1] * (x - x0)
            out[i, j] = top * (1 - (y - y0)) + bottom * (y - y0)
    return out


@pytest.mark.parametrize("shape", [(9, 13), (12, 12), (1, 1)])
def test_rotated_crop_is_bilinear_sampling_of_a_turned_box(shape: tuple[int, int]) -> None:
    x = images(4, 1, *shape)
    boxes = torch.tensor([[0.5, 0.5, 1, 1], [0.5, 0.5, 1, -1], [0.4, 0.6, 0.7, 0.8], [0.7, 0.3, 0.5, -0.6]])
    degrees = torch.tensor([30.0, -17.0, 5.0, -90.0])
    out = pixels.rotated_crop(x, boxes, degrees, 10, "bilinear")
    for b in range(4):
        expected = slow_rotated_crop(x[b, 0].double().numpy(), boxes[b].tolist(), degrees[b].item(), 10)
        np.testing.assert_allclose(out[b, 0].numpy(), expected, atol=2e-5)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_positive_angles_turn_counter_clockwise(interpolation: Interpolation) -> None:
    x = images()
    whole = torch.tensor([0.5, 0.5, 1.0, 1.0]).repeat(4, 1)
    out = pixels.rotated_crop(x, whole, torch.tensor([0.0, 90.0, 180.0, -90.0]), 12, interpolation)
    expected = torch.stack([torch.rot90(x[b], turns, (1, 2)) for b, turns in enumerate((0, 1, 2, -1))])
    torch.testing.assert_close(out, expected, rtol=0, atol=2e-5)


def test_luma_is_pils_greyscale() -> None:
    x = images()
    for b in range(4):
        grey = from_pil(to_pil(x[b]).convert("L"))
        torch.testing.assert_close(pixels.luma(x)[b], grey, rtol=0, atol=1.5 / 255)


def test_luma_of_other_numbers_of_channels() -> None:
    grey = images(2, 1)
    assert torch.equal(pixels.luma(grey), grey)
    torch.testing.assert_close(pixels.luma(images(2, 4)), images(2, 4).mean(1, keepdim=True))


@pytest.mark.parametrize(
    ("enhance", "grey", "mean"),
    [(ImageEnhance.Brightness, 0.0, 0.0), (ImageEnhance.Contrast, 0.0, 1.0), (ImageEnhance.Color, 1.0, 0.0)],
)
def test_blend_is_pils_brightness_contrast_and_saturation(enhance: type, grey: float, mean: float) -> None:
    x = images()
    factor = torch.tensor([0.0, 0.6, 1.0, 1.7])
    out = pixels.blend(x, factor, torch.full((4,), grey), torch.full((4,), mean))
    for b in range(4):
        expected = from_pil(enhance(to_pil(x[b])).enhance(factor[b].item()))
        torch.testing.assert_close(out[b], expected, rtol=0, atol=2.5 / 255)


def test_blend_matches_the_formula_for_mixed_operations() -> None:
    x = images().double()
    factor, grey, mean = (torch.tensor(v).double() for v in ([0.5, 1.4, 0.7, 1.0], [0, 1, 0, 1], [1, 0, 0, 0]))
    out = pixels.blend(x, factor, grey, mean)
    for b in range(4):
        luma = 0.299 * x[b, 0] + 0.587 * x[b, 1] + 0.114 * x[b, 2]
        anchor = grey[b] * luma + mean[b] * luma.mean()
        torch.testing.assert_close(out[b], (factor[b] * x[b] + (1 - factor[b]) * anchor).clamp(0, 1))
    assert torch.equal(out[3], x[3])


def test_to_grey_changes_the_chosen_images_only() -> None:
    x = images()
    out = pixels.to_grey(x, torch.tensor([0.0, 1.0, 0.0, 1.0]))
    assert torch.equal(out[0::2], x[0::2])
    assert torch.equal(out[1::2], pixels.luma(x)[1::2].expand(2, 3, 12, 12))


def test_hue_is_colorsys() -> None:
    x = images(5, 3, 6, 6)
    corners = [(0, 0, 0), (1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.5, 0.5), (1, 1, 0), (0.2, 0.7, 0.7)]
    x[:, :, 0, :6] = torch.tensor(corners[:6], dtype=x.dtype).T
    x[:, :, 1, :2] = torch.tensor(corners[6:], dtype=x.dtype).T
    turns = torch.tensor([0.0, 0.1, -0.1, 0.5, -0.37])
    out = pixels.turn_hue(x, turns)
    for b in range(5):
        for i in range(6):
            for j in range(6):
                h, s, v = colorsys.rgb_to_hsv(*x[b, :, i, j].tolist())
                expected = colorsys.hsv_to_rgb((h + turns[b].item()) % 1, s, v)
                np.testing.assert_allclose(out[b, :, i, j].numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(12, 12), (9, 14), (1, 1)])
def test_blur_is_scipys_gaussian_normalised_inside_the_image(shape: tuple[int, int]) -> None:
    x = images(4, 2, *shape)
    sigma = [0.0, 0.3, 1.0, 2.5]
    out = pixels.blur(x, torch.tensor(sigma))
    assert torch.equal(out[0], x[0])
    for b in range(1, 4):
        options = {"sigma": sigma[b], "mode": "constant", "radius": 14}
        inside = scipy.ndimage.gaussian_filter(np.ones(shape), **options)
        for c in range(2):
            expected = scipy.ndimage.gaussian_filter(x[b, c].double().numpy(), **options) / inside
            np.testing.assert_allclose(out[b, c].numpy(), expected, atol=1e-6)


def test_solarise_is_pils() -> None:
    x = (images() * 255).round() / 255
    out = pixels.solarise(x, torch.tensor([0.5, 2.0, 0.25, 0.0]))
    for b, threshold in ((0, 128), (2, 64), (3, 0)):
        torch.testing.assert_close(out[b], from_pil(ImageOps.solarize(to_pil(x[b]), threshold)))
    assert torch.equal(out[1], x[1])
