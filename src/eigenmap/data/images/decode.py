"""Decoding of one image file, or one Pillow image, to a small square of 8-bit pixels.

The result is the picture as a viewer would show it: rotated upright (EXIF), composed on white if transparent, the first
frame of an animation, scaled by its full range if it has 16 bits.

The square is the picture with its shortest side scaled to ``size`` and the centre cropped, computed in one antialiased
resampling step from the central square, so that an image of 20,000 x 1 pixels costs no more than its central pixel.
JPEG files are decoded at the smallest scale (1, 1/2, 1/4, 1/8) that still leaves twice the pixels needed.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import open_regular

Pixels: TypeAlias = npt.NDArray[np.uint8]
Encoded: TypeAlias = Path | bytes | None

EXTENSIONS = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".dib", ".tif", ".tiff", ".webp"}
    | {".ppm", ".pgm", ".pbm", ".pnm", ".tga", ".jp2", ".avif", ".heic", ".heif"}
)
"""File extensions that count as images. HEIC is read if pillow-heif is installed; else such photos are listed as
skipped."""

FORMATS = frozenset(
    {"JPEG", "MPO", "PNG", "GIF", "BMP", "DIB", "TIFF", "WEBP", "PPM", "TGA", "JPEG2000", "AVIF", "HEIF"}
)
"""Accepted formats. PostScript, which Pillow also opens, is excluded because it starts an interpreter."""

DEEP_MODES = frozenset({"F", "I", "I;16", "I;16L", "I;16B", "I;16N"})
GREY_MODES = DEEP_MODES | {"1", "L", "LA"}

HEIC_SUFFIXES = (".heic", ".heif")
HEIC_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1"})
"""What the bytes 8 to 11 of a HEIC file say."""

_ORIENTATION_TAG = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


_SIDEWAYS = frozenset(turn for tag, turn in _UPRIGHT.items() if tag >= 5)
"""Turns that exchange width and height."""


class UnreadableImageError(EigenmapError):
    """An image that cannot be decoded; the message is only the reason, to be shown beside the file name."""


def decode_image(encoded: Encoded, size: int, channels: int) -> Pixels:
    """Decode one file, or the bytes of one, into an array of shape (channels, size, size).

    Raises :class:`UnreadableImageError` with the reason for anything that is not a complete, readable image.

    Example:
        >>> pixels = decode_image(Path("photo.jpg"), size=64, channels=3)  # doctest: +SKIP

    """
    with _opened(encoded) as image:
        # Twice the target size is enough for the resampling filter; the decoder skips the rest.
        draft = image.draft("L" if channels == 1 else "RGB", (2 * size, 2 * size))
        return fit_image(image, size, channels, extent=draft[1][2:] if draft else None)


def decode_whole(encoded: Encoded, size: int, channels: int) -> tuple[Pixels, float]:
    """Decode one file without cropping: an array (channels, size, size), and the picture's width / height.

    The picture is squeezed into the square; crops with the picture's proportions undo that.
    """
    with _opened(encoded) as image:
        draft = image.draft("L" if channels == 1 else "RGB", (2 * size, 2 * size))
        return fit_whole(image, size, channels, extent=draft[1][2:] if draft else None)


def read_header(encoded: Encoded) -> tuple[tuple[int, int], str]:
    """Return the (width, height) and the Pillow mode of an encoded image without decoding it."""
    with _opened(encoded) as image:
        return image.size, image.mode


def fit_image(image: Image.Image, size: int, channels: int, extent: tuple[float, float] | None = None) -> Pixels:
    """Scale the shortest side to ``size``, crop the centre, rotate upright: (channels, size, size).

    ``extent`` is the exact size of the picture in a JPEG decoded at a smaller scale: 375 pixels are 187.5 at half
    scale, in a raster of 188.
    """
    image, turn = _loaded(image, channels)
    width, height = extent or image.size
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return _resized(image, size, (left, top, left + side, top + side), turn)


def fit_whole(
    image: Image.Image, size: int, channels: int, extent: tuple[float, float] | None = None
) -> tuple[Pixels, float]:
    """Squeeze the uncropped picture into a square, upright: (channels, size, size), and its width / height."""
    image, turn = _loaded(image, channels)
    width, height = extent or image.size
    aspect = height / width if turn in _SIDEWAYS else width / height
    return _resized(image, size, (0, 0, width, height), turn), aspect


def _loaded(image: Image.Image, channels: int) -> tuple[Image.Image, Image.Transpose | None]:
    """Return the picture with 8 bits per channel, and the turn that makes it upright."""
    image.load()
    # After loading: Pillow itself rotates TIFF and AVIF, and PNG may have its EXIF block at the end.
    turn = _UPRIGHT.get(image.getexif().get(_ORIENTATION_TAG, 1))
    image = flatten(image)
    mode = "L" if channels == 1 else "RGB"
    return (image if image.mode == mode else image.convert(mode)), turn


def _resized(
    image: Image.Image, size: int, box: tuple[float, float, float, float], turn: Image.Transpose | None
) -> Pixels:
    """Return the box as a square, turned after resizing, which is cheaper and the same for a square."""
    image = image.resize((size, size), Image.Resampling.BILINEAR, box)
    if turn is not None:
        image = image.transpose(turn)
    pixels = np.asarray(image)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def flatten(image: Image.Image) -> Image.Image:
    """Return a picture with 8 bits per channel and no transparency, as it looks on white paper."""
    if image.mode in DEEP_MODES:
        return Image.fromarray(_to_8_bit(np.asarray(image)))
    if not _has_alpha(image):
        return image if image.mode in ("L", "RGB") else image.convert("L" if image.mode == "1" else "RGB")
    image = image.convert("RGBA")
    paper = Image.new("RGB", image.size, "white")
    paper.paste(image, mask=image.getchannel("A"))
    return paper


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Silence Pillow's warnings about odd files; unreadable files are reported as skipped.

    Wrap it once around an entire parallel decode: warning filters belong to the process, not to a thread.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


@contextmanager
def _opened(encoded: Encoded) -> Iterator[Image.Image]:
    """Open an encoded image; any failure to open or use it becomes an error with a readable reason."""
    if encoded is None:
        raise UnreadableImageError("no image bytes")
    if _is_heic(encoded):
        _learn_heic()
    try:
        with _content(encoded) as content, Image.open(content) as image:
            if image.format not in FORMATS:
                raise UnreadableImageError(f"{image.format} files are not supported")
            yield image
    except UnreadableImageError:
        raise
    except UnidentifiedImageError:
        raise UnreadableImageError(_why_unidentified(encoded)) from None
    except Image.DecompressionBombError:
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        raise UnreadableImageError(f"more than {limit:,} pixels (PIL.Image.MAX_IMAGE_PIXELS sets the limit)") from None
    except OSError as error:
        raise UnreadableImageError(error.strerror or str(error)) from None
    except Exception as error:  # On a corrupt file Pillow's plug-ins raise almost anything.
        raise UnreadableImageError(f"{type(error).__name__}: {error}") from None


def _content(encoded: Path | bytes) -> IO[bytes]:
    """Open the bytes of an image; only regular files, since a FIFO or a device might never end."""
    if isinstance(encoded, bytes):
        return io.BytesIO(encoded)
    return os.fdopen(open_regular(encoded, follow=True), "rb")


def _why_unidentified(encoded: Path | bytes) -> str:
    if (len(encoded) if isinstance(encoded, bytes) else os.path.getsize(encoded)) == 0:  # noqa: PTH202
        return "empty file"
    if _is_heic(encoded) and not _learn_heic():
        return "HEIC needs the package pillow-heif (pip install pillow-heif)"
    return "not an image, or a damaged one"


def _is_heic(encoded: Path | bytes) -> bool:
    if isinstance(encoded, bytes):
        return encoded[4:8] == b"ftyp" and encoded[8:12] in HEIC_BRANDS
    return encoded.suffix.lower() in HEIC_SUFFIXES


@cache
def _learn_heic() -> bool:
    """Let Pillow read HEIC, the format of many phones, if pillow-heif is installed; tell whether it is."""
    try:
        import pillow_heif
    except ImportError:
        return False
    pillow_heif.register_heif_opener()
    return True


def _has_alpha(image: Image.Image) -> bool:
    """Tell whether any pixel may be transparent: an alpha channel, a transparent colour, a palette with alpha."""
    if image.mode in ("RGBA", "RGBa", "LA", "PA") or "transparency" in image.info:
        return True
    return image.mode == "P" and image.palette is not None and image.palette.mode == "RGBA"


def _to_8_bit(values: npt.NDArray[np.generic]) -> Pixels:
    """Scale deep grey values to 8 bits by full range: 16 bits by 65,535, floats in [0, 1] by 1.

    Other values (32-bit counts, heights, temperatures) are stretched from their own minimum and maximum.
    """
    x = values.astype(np.float64)
    if not np.isfinite(x).all():
        raise UnreadableImageError("it contains values that are not finite")
    low, high = 0.0, 1.0 if values.dtype.kind == "f" else 65535.0
    if x.min() < low or x.max() > high:
        low, high = float(x.min()), float(x.max())
    scale = 255.0 / (high - low) if high > low else 0.0
    return np.rint((x - low) * scale).astype(np.uint8)
