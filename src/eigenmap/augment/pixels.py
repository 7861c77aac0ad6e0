"""Pixel operations on batches, with different parameters for each image.

Every function takes images (B, C, H, W) as floats in [0, 1] and parameters with B rows, has no loops and never waits
for a GPU. Cropping and blurring are products with small per-image matrices: a crop of any size, mirrored
or not, with or without the low-pass filter that shrinking needs, is `rows @ image @ columns^T`, and so is a blur.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenmap.augment.policies import Interpolation

# Rec. 601 weights, as in PIL and torchvision.
_LUMA = (0.299, 0.587, 0.114)


def crop(images: Tensor, boxes: Tensor, size: tuple[int, int], interpolation: Interpolation) -> Tensor:
    """Cut a box out of every image and resize it, with the antialiasing of PIL's `Image.resize(size, box=box)`.

    Args:
        images: (B, C, H, W).
        boxes: (B, 4), vertical and horizontal centre, height and width, as shares of the image. A negative width
            mirrors the crop.
        size: height and width of the result.
        interpolation: "bilinear" or "bicubic" (Keys, a = -1/2).

    """
    height, width = images.shape[2:]
    y, x, box_height, box_width = boxes.unbind(1)
    rows = _filter_matrix(y, box_height, size[0], height, interpolation)
    columns = _filter_matrix(x, box_width, size[1], width, interpolation)
    out = _between(rows, images, columns)
    return out.clamp_(0, 1) if interpolation == "bicubic" else out


def rotated_crop(images: Tensor, boxes: Tensor, degrees: Tensor, size: int, interpolation: Interpolation) -> Tensor:
    """Cut a box turned about its centre out of every image and resize it to `size`, in one interpolation.

    A turned box has no matrix form, so points are sampled, without the low-pass filter of `crop`. Outside the image is
    its reflection. Boxes are as in `crop`; positive angles turn the picture counter-clockwise.
    """
    height, width = images.shape[2:]
    y, x, box_height, box_width = boxes.unbind(1)
    step_down, step_right = box_height * height / size, box_width * width / size
    angle = torch.deg2rad(degrees)
    cos, sin = torch.cos(angle), torch.sin(angle)
    # grid_sample counts in half image sides from the centre.
    unit_x, unit_y = 2 / width, 2 / height
    along_row = torch.stack([cos * step_right * unit_x, sin * step_right * unit_y], dim=1)
    along_column = torch.stack([-sin * step_down * unit_x, cos * step_down * unit_y], dim=1)
    centre = 2 * torch.stack([x, y], dim=1) - 1
    places = _places(size, images.device)
    in_row = centre[..., None] + along_row[..., None] * places
    in_column = along_column[..., None] * places
    grid = (in_row[:, :, None, :] + in_column[:, :, :, None]).permute(0, 2, 3, 1)
    out = F.grid_sample(images, grid, mode=interpolation, padding_mode="reflection", align_corners=False)
    return out.clamp_(0, 1) if interpolation == "bicubic" else out


def luma(images: Tensor) -> Tensor:
    """Return the grey value of every pixel, (B, 1, H, W): Rec. 601 for three channels, else the channel mean."""
    channels = images.shape[1]
    if channels == 1:
        return images
    if channels != 3:
        return images.mean(dim=1, keepdim=True)
    red, green, blue = images[:, 0:1], images[:, 1:2], images[:, 2:3]
    return (red * _LUMA[0]).add_(green, alpha=_LUMA[1]).add_(blue, alpha=_LUMA[2])


def blend(images: Tensor, factor: Tensor, grey: Tensor, mean: Tensor) -> Tensor:
    """Mix x with an anchor m: f x + (1 - f) m, clipped to [0, 1], where m = grey * luma(x) + mean * average of luma(x).

    One formula for four operations, so that each image of a batch can have its own order of them: brightness is
    m = 0, contrast is mean = 1, saturation is grey = 1, and greyscale is grey = 1 with f = 0.
    All three parameters are (B,).
    """
    value = luma(images)
    average = value.mean(dim=(2, 3), keepdim=True)
    anchor = torch.addcmul(_per_image(mean) * average, _per_image(grey), value)
    return torch.lerp(anchor, images, _per_image(factor)).clamp_(0, 1)


def to_grey(images: Tensor, chosen: Tensor) -> Tensor:
    """Replace the images where `chosen` (B,) is 1 by their grey values."""
    return torch.lerp(images, luma(images).expand_as(images), _per_image(chosen))


def turn_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Turn the hue of RGB images by `turns` (B,) of the colour circle, keeping HSV saturation and value.

    With V the largest and V - C the smallest channel, channel c becomes V - C clip(2 - 6 d_c, 0, 1), where d_c is the
    distance on the circle between the new hue and the colour opposite to c (cyan, magenta, yellow).
    """
    red, green, blue = images.unbind(1)
    value = images.amax(dim=1)
    chroma = value - images.amin(dim=1)
    sixths = _select(value == green, blue - red + 2 * chroma, red - green + 4 * chroma)
    sixths = _select(value == red, green - blue, sixths)
    # Grey pixels have no hue; any finite number will do, since their chroma is 0.
    hue = sixths / (6 * chroma).clamp_(min=1e-12) + turns[:, None, None]
    opposite = torch.arange(3, device=images.device)[:, None, None] / 3 + 0.5
    offset = hue[:, None] - opposite
    distance = offset.sub_(offset.round()).abs_()
    share = torch.rsub(distance, 2, alpha=6).clamp_(0, 1)
    return torch.addcmul(value[:, None], chroma[:, None], share, value=-1)


def blur(images: Tensor, sigma: Tensor) -> Tensor:
    """Blur by a Gaussian of standard deviation sigma (B,) in pixels; 0 leaves an image unchanged.

    Weights are normalised over the pixels inside the image: w_ij ~ exp(-(i - j)^2 / (2 sigma^2)).
    """
    rows = _gaussian_matrix(sigma, images.shape[2])
    columns = rows if images.shape[2] == images.shape[3] else _gaussian_matrix(sigma, images.shape[3])
    return _between(rows, images, columns)


def solarise(images: Tensor, threshold: Tensor) -> Tensor:
    """Invert the pixels at or above the threshold (B,); a threshold above 1 leaves an image unchanged."""
    return _select(images >= _per_image(threshold), 1 - images, images)


def _select(condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Compute `torch.where` for finite values, several times faster on a CPU, since it does not branch per pixel."""
    return torch.lerp(no, yes, condition.to(no.dtype))


def _per_image(parameter: Tensor) -> Tensor:
    return parameter[:, None, None, None]


def _places(count: int, device: torch.device) -> Tensor:
    """Return `count` points one apart, centred on 0; exact, so that a crop of the full image is exact too."""
    return torch.arange(count, device=device) + (0.5 - count / 2)


def _between(rows: Tensor, images: Tensor, columns: Tensor) -> Tensor:
    """Compute rows @ image @ columns^T for every channel; (B, H', H), (B, C, H, W), (B, W', W) -> (B, C, H', W').

    In the layout (B, H, C, W) each side is a single batched product. The result is a view of that layout, which
    elementwise operations keep, so that a second call does not have to copy.
    """
    batch, channels, height, width = images.shape
    x = images.transpose(1, 2).reshape(batch, height, channels * width)
    x = torch.bmm(rows, x).view(batch, rows.shape[1] * channels, width)
    x = torch.bmm(x, columns.transpose(1, 2))
    return x.view(batch, rows.shape[1], channels, columns.shape[1]).transpose(1, 2)


def _filter_matrix(centre: Tensor, extent: Tensor, size: int, length: int, interpolation: Interpolation) -> Tensor:
    """Return weights (B, size, length) that resample the part of a line around `centre` to `size` points.

    In pixels, point i lies at c_i = centre + d (i + 1/2 - size / 2), d = extent / size; its weight for the pixel at p
    is kernel((p - c_i) / s), normalised, where s = max(1, |d|) widens the kernel when shrinking.
    """
    step = (extent * length / size)[:, None]
    points = (centre[:, None] - 0.5) * length + step * _places(size, centre.device)
    spread = step.abs().clamp_(min=1)
    pixels = _places(length, centre.device) / spread
    distance = (pixels[:, None, :] - (points / spread)[:, :, None]).abs_()
    weights = _triangle(distance) if interpolation == "bilinear" else _cubic(distance)
    return weights.div_(weights.sum(dim=-1, keepdim=True))


def _triangle(distance: Tensor) -> Tensor:
    return distance.neg_().add_(1).clamp_(min=0)


def _cubic(distance: Tensor) -> Tensor:
    """Keys' cubic convolution kernel with a = -1/2, as in PIL."""
    t = distance.clamp_(max=2)
    near = (1.5 * t - 2.5).mul_(t).mul_(t).add_(1)
    far = (t - 2).square_().mul_(t - 1).mul_(-0.5)
    return torch.where(t < 1, near, far)


def _gaussian_matrix(sigma: Tensor, length: int) -> Tensor:
    place = torch.arange(length, device=sigma.device)
    distance = (place[:, None] - place).square()
    # At sigma = 1e-3 the weight of a neighbour underflows to zero: exactly the identity.
    precision = 0.5 / sigma.clamp(min=1e-3).square()
    weights = torch.exp(-precision[:, None, None] * distance)  # each pixel's own weight is 1, so sums are at least 1
    return weights.div_(weights.sum(dim=-1, keepdim=True))
