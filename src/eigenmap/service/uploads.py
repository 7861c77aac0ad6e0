"""Pictures from strangers: bounded in bytes before they are read (`incoming`) and in pixels before they are decoded.

Nothing is written to disk. The body of the request is the file itself, since a form would be spooled to a temporary
file on its way.
"""

from __future__ import annotations

import io

from PIL import Image, UnidentifiedImageError

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.decode import Pixels, fit_image

UPLOAD_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
"""What may be uploaded: the formats that browsers show, whose decoders see the most scrutiny."""
_NAMES = "JPEG, PNG, WebP, GIF or BMP"


class Refused(EigenmapError):
    """A request that is not answered, and the HTTP status that says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def decode_upload(body: bytes, size: int, channels: int, most_pixels: int) -> Pixels:
    """Pixels (channels, size, size) of an uploaded picture.

    Raises `Refused` with 415 for what is no picture, 413 for one with too many pixels, 422 for a damaged one.
    """
    if not body:
        raise Refused(415, f"the request has no body; send the bytes of a {_NAMES} file")
    try:
        with Image.open(io.BytesIO(body), formats=UPLOAD_FORMATS) as image:
            width, height = image.size
            if width * height > most_pixels:
                raise Refused(413, f"a picture may have {most_pixels:,} pixels at most, and this one has more")
            draft = image.draft("L" if channels == 1 else "RGB", (2 * size, 2 * size))
            return fit_image(image, size, channels, extent=draft[1][2:] if draft else None)
    except Refused:
        raise
    except UnidentifiedImageError:
        raise Refused(415, f"this is no {_NAMES} file, or a damaged one") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Refused(413, f"a picture may have {most_pixels:,} pixels at most, and this one has more") from None
    except Exception as error:  # on a corrupt file Pillow's plug-ins raise almost anything
        raise Refused(422, f"the picture cannot be decoded ({type(error).__name__})") from None
