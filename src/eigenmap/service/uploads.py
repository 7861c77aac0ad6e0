"""Uploaded pictures, with limits on bytes before reading (`incoming`) and on pixels before decoding.

Nothing is written to disk. The request body is the file itself, because a form would be spooled to a temporary file.
"""

from __future__ import annotations

import io

from PIL import Image, UnidentifiedImageError

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.decode import Pixels, fit_image

UPLOAD_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
"""Accepted formats: those that browsers show, since their decoders are the best tested."""
_NAMES = "JPEG, PNG, WebP, GIF or BMP"
_FORM = 1024
"""Bytes at the start of a body that are searched for the headers of a form, which `curl -F` sends."""


class Refused(EigenmapError):
    """A refused request, with its HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def decode_upload(body: bytes, size: int, channels: int, most_pixels: int) -> Pixels:
    """Decode an uploaded picture to pixels (channels, size, size).

    Raises `Refused` with 415 if it is not a picture, 413 if it has too many pixels, 422 if it is damaged.
    """
    if not body:
        raise Refused(415, f"the request has no body; send the bytes of a {_NAMES} file")
    try:
        with Image.open(io.BytesIO(body), formats=UPLOAD_FORMATS) as image:
            width, height = image.size
            if width * height > most_pixels:
                raise Refused(413, f"a picture may have at most {most_pixels:,} pixels; this one has more")
            draft = image.draft("L" if channels == 1 else "RGB", (2 * size, 2 * size))
            return fit_image(image, size, channels, extent=draft[1][2:] if draft else None)
    except Refused:
        raise
    except UnidentifiedImageError:
        if body.startswith(b"--") and b"form-data" in body[:_FORM]:
            raise Refused(415, f"this is a form; send the bytes of a {_NAMES} file as the whole body") from None
        raise Refused(415, f"this is not a {_NAMES} file, or it is damaged") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Refused(413, f"a picture may have at most {most_pixels:,} pixels; this one has more") from None
    except Exception as error:  # Pillow's plug-ins raise almost anything on a corrupt file
        raise Refused(422, f"the picture cannot be decoded ({type(error).__name__})") from None
