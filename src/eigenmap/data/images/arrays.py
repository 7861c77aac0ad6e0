"""Conversion of images in memory or in NumPy files to 8-bit pixels of one size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.decode import Pixels, fit_image, quiet_pillow
from eigenmap.data.images.imageset import ImageSet
from eigenmap.data.images.labels import Labels
from eigenmap.data.npy import Array as Array
from eigenmap.data.npy import Npz, open_npy, open_npz

Images: TypeAlias = ImageSet | Tensor | Array | Image.Image | Sequence[Image.Image | Array | Tensor]

IMAGE_KEYS = frozenset(
    {"images", "image", "pixels", "x", "arr_0"}
    | {"x_train", "train_x", "train_images", "x_test", "test_x", "test_images"}
)
LABEL_KEYS = ("labels", "label", "y", "targets")

_COLOURS = (1, 3, 4)
_BLOCK = 1024  # Images converted at a time, so that a large or memory-mapped array is never copied entirely.


def to_pixels(images: Images, size: int, channels: int) -> Tensor:
    """Turn images in any usual form into a uint8 tensor of shape (N, channels, size, size).

    ===========================================  ====================================================
    given                                        read as
    ===========================================  ====================================================
    4 axes, the last of 1, 3 or 4                NHWC (even if axis 1 could be channels)
    4 axes, axis 1 of 1, 3 or 4                  NCHW
    3 axes, the last of 3 or 4                   one colour image, HWC
    3 axes                                       NHW, grey
    Pillow image, or list of images              each with its own size; arrays in a list are HW, HWC, CHW
    ``ImageSet``                                 its pixels
    ===========================================  ====================================================

    Values are 0..255 of any integer type, or floats in [0, 1]. Four channels are RGBA and are composed on white. Images
    of another size are scaled and cropped like files (:func:`.decode.fit_image`). A tensor that needs no change is
    returned unchanged, on its device.

    Example:
        >>> to_pixels(np.zeros((5, 28, 28), np.uint8), size=32, channels=3).shape
        torch.Size([5, 3, 32, 32])

    """
    if channels not in (1, 3):
        raise EigenmapError(f"images have 1 channel (grey) or 3 (colour), not {channels}")
    if size < 1:
        raise EigenmapError(f"the image size must be at least 1 pixel, not {size}")
    if isinstance(images, ImageSet):
        if (images.channels, images.size) == (channels, size):
            return images.pixels
        images = images.pixels.permute(0, 2, 3, 1)
    if isinstance(images, Image.Image):
        images = [images]
    if isinstance(images, (list, tuple)):
        with quiet_pillow():
            fitted = [_fit_one(image, size, channels) for image in images]
        return torch.from_numpy(np.stack(fitted)) if fitted else _empty(0, size, channels)
    if isinstance(images, Tensor) and _is_ready(images, size, channels):
        return images
    return _fit_batch(as_nhwc(as_array(images)), size, channels)


def as_array(images: object) -> Array:
    """Return the values of a tensor or array, without copying if possible."""
    if isinstance(images, str | Path):
        raise EigenmapError(
            f"images must be arrays or Pillow images here, not the path {str(images)!r}: give paths only, or read them "
            "with eigenmap.data.load_images"
        )
    if isinstance(images, Tensor):
        if images.layout != torch.strided or images.is_meta:
            raise EigenmapError("a tensor of images must be dense and contain values")
        # NumPy has no bfloat16, and any float type will do.
        images = images.detach().cpu()
        return (images.float() if images.is_floating_point() else images).numpy()
    if isinstance(images, np.ndarray):
        return images
    raise EigenmapError(
        f"images must be a path, paths, a NumPy array, a torch tensor or Pillow images, not {type(images).__name__}"
    )


def as_nhwc(array: Array) -> Array:
    """View a batch of images as (N, H, W, C), by the rules of :func:`to_pixels`."""
    shape = array.shape
    if array.ndim == 3 and shape[-1] in (3, 4):
        array = array[None]
    elif array.ndim == 3:
        array = array[..., None]
    elif array.ndim == 4 and shape[-1] not in _COLOURS and shape[1] in _COLOURS:
        array = array.transpose(0, 2, 3, 1)
    if array.ndim != 4 or array.shape[-1] not in _COLOURS:
        raise EigenmapError(
            f"an array of shape {shape} is not a batch of images: give (N, H, W), (N, H, W, C) or "
            "(N, C, H, W) with 1, 3 or 4 channels"
        )
    if 0 in array.shape[1:]:
        raise EigenmapError(f"an array of shape {shape} contains images without pixels")
    return array


def one_as_nhwc(array: Array) -> Array:
    """View one image, HW, HWC or CHW, as a batch of one (1, H, W, C)."""
    if array.ndim not in (2, 3):
        raise EigenmapError(f"an array of shape {array.shape} in a list of images is not one image (H, W[, C])")
    return as_nhwc(array[None, ..., None] if array.ndim == 2 else array[None])


def read_array_file(path: Path) -> tuple[Array, Labels | None]:
    """Read images, and labels if there are any, from an .npy or .npz file; nothing is unpickled."""
    if path.suffix.lower() == ".npy":
        return open_npy(path), None
    with open_npz(path) as arrays:
        key = _image_key(arrays)
        label_key = _label_key(key, arrays.names)
        images, values = arrays[key], None if label_key is None else arrays[label_key]
    try:
        return images, None if values is None else Labels.from_array(values)
    except EigenmapError as error:
        raise EigenmapError(f"{path}: {error}") from None
    except UnicodeDecodeError:  # names stored as bytes
        raise EigenmapError(f"{path}: the names in {label_key} are not ASCII; store them as text") from None


def _image_key(arrays: Npz) -> str:
    """Find the array of images in an .npz file: by name, or else the only one of a suitable shape."""
    known = [key for key in arrays.names if key.lower() in IMAGE_KEYS]
    if not known:
        known = [key for key in arrays.names if len(arrays.shape(key)) in (3, 4)]
    if len(known) != 1:
        listed = ", ".join(arrays.names) or "nothing"
        raise EigenmapError(
            f"{arrays.path}: unclear which array contains the images (it has: {listed}); name one of them 'images'"
        )
    return known[0]


def _label_key(image_key: str, keys: Sequence[str]) -> str | None:
    """Find the labels of an image array: x_train -> y_train, train_images -> train_labels, else 'labels'."""
    parts = [{"images": "labels", "image": "label", "x": "y"}.get(part, part) for part in image_key.lower().split("_")]
    wanted = ["_".join(parts), *LABEL_KEYS]
    by_lower = {key.lower(): key for key in keys if key != image_key}
    return next((by_lower[name] for name in wanted if name in by_lower), None)


def _is_ready(images: Tensor, size: int, channels: int) -> bool:
    """Tell whether these are clearly NCHW pixels of the right size (a last axis of 1, 3 or 4 means NHWC)."""
    return images.dtype == torch.uint8 and images.shape[1:] == (channels, size, size) and size not in _COLOURS


def _empty(n: int, size: int, channels: int) -> Tensor:
    return torch.empty(n, channels, size, size, dtype=torch.uint8)


def _fit_one(image: object, size: int, channels: int) -> Pixels:
    """Fit one Pillow image, or one HW / HWC / CHW array, of any size."""
    if isinstance(image, Image.Image):
        try:
            return fit_image(image, size, channels)
        except (OSError, ValueError) as error:
            raise EigenmapError(f"one of the Pillow images cannot be used: {error}") from None
    return _fit_batch(one_as_nhwc(as_array(image)), size, channels)[0].numpy()


def _fit_batch(array: Array, size: int, channels: int) -> Tensor:
    """Fit images (N, H, W, C) of one size, in blocks."""
    out = _empty(len(array), size, channels)
    for start in range(0, len(array), _BLOCK):
        block = _to_uint8(array[start : start + _BLOCK])
        target = out[start : start + _BLOCK].numpy()
        if block.shape[1:3] == (size, size):
            target[:] = _recolour(block, channels).transpose(0, 3, 1, 2)
        else:
            for i, image in enumerate(_recolour(block, channels)):
                target[i] = fit_image(Image.fromarray(image[..., 0] if channels == 1 else image), size, channels)
    return out


def _to_uint8(array: Array) -> Pixels:
    """Convert integers 0..255, booleans or floats in [0, 1] to 8-bit values; refuse anything else."""
    if array.dtype == np.uint8 or array.size == 0:
        return array.astype(np.uint8, copy=False)
    if array.dtype.kind == "b":
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype.kind not in "iuf":
        raise EigenmapError(f"images must contain numbers, not {array.dtype}")
    low, high = array.min(), array.max()
    if not np.isfinite([low, high]).all():  # A NaN anywhere makes the minimum one.
        raise EigenmapError("the images contain values that are not finite")
    if array.dtype.kind in "iu":
        if low < 0 or high > 255:
            raise EigenmapError(f"integer images must be in 0 to 255, but these range from {low} to {high}")
        return array.astype(np.uint8)
    # With a tolerance: resampling overshoots by rounding.
    if low < -1e-3 or high > 1 + 1e-3:
        raise EigenmapError(
            f"float images must be in [0, 1], but these range from {low:.4g} to {high:.4g}; scale them or give uint8"
        )
    unit: npt.NDArray[np.float32] = array.astype(np.float32, copy=False).clip(0, 1)
    return np.rint(unit * 255).astype(np.uint8)


def _recolour(block: Pixels, channels: int) -> Pixels:
    """Change the channels of (N, H, W, C) pixels, rounding like Pillow, so that files and arrays agree."""
    if block.shape[-1] == 4:
        # On white: c a / 255 + 255 (1 - a / 255), rounded.
        colour, alpha = block[..., :3].astype(np.uint32), block[..., 3:].astype(np.uint32)
        block = ((colour * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)
    if block.shape[-1] == channels:
        return block
    if channels == 3:
        return np.repeat(block, 3, axis=-1)
    # ITU-R 601 luma in 16-bit fixed point.
    red, green, blue = (block[..., c].astype(np.uint32) for c in range(3))
    return ((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16).astype(np.uint8)[..., None]
