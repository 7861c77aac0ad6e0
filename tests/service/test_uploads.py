from __future__ import annotations

import io
import warnings
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from PIL import Image

from eigenmap.service.uploads import Refused, decode_upload
from tests.service.pictures import FORMATS, bomb, encoded, mutants

PIXELS = 64_000_000


@pytest.fixture(autouse=True)
def quiet_pillow() -> Iterator[None]:
    """As the server has it: what Pillow warns about becomes an answer, or does not matter."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def status(body: bytes, pixels: int = PIXELS) -> int:
    try:
        decode_upload(body, 16, 3, pixels)
    except Refused as refused:
        return refused.status
    return 200


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_read(kind: str) -> None:
    pixels = decode_upload(encoded(kind), 16, 3, PIXELS)
    assert (pixels.shape, pixels.dtype) == ((3, 16, 16), np.uint8)
    assert pixels[1, 8, 8] > 150 > pixels[0, 8, 8]  # the green disc is in the middle
    assert decode_upload(encoded(kind), 12, 1, PIXELS).shape == (1, 12, 12)


@pytest.mark.parametrize("kind", ["TIFF", "PPM", "TGA", "ICO", "PDF", "EPS"])
def test_other_formats_are_refused(kind: str) -> None:
    assert status(encoded(kind)) == 415


@pytest.mark.parametrize("body", [b"", b"no picture", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%!PS-Adobe-3.0"])
def test_what_is_no_picture_is_refused(body: bytes) -> None:
    assert status(body) == 415


def test_a_form_with_a_picture_in_it_is_called_a_form() -> None:
    request = httpx.Request("POST", "http://here/", files={"file": ("a.png", encoded("PNG"))})
    with pytest.raises(Refused, match=r"form.*whole body"):
        decode_upload(request.read(), 16, 3, PIXELS)


def test_too_many_pixels_are_refused_before_they_are_decoded() -> None:
    assert status(encoded("PNG", 40, 30), pixels=1199) == 413
    assert status(encoded("PNG", 40, 30), pixels=1200) == 200
    for side in (10_000, 60_000, 2**31 - 1):
        assert status(bomb(side, side)) == 413


def test_a_damaged_picture_is_refused() -> None:
    whole = encoded("PNG")
    assert status(whole[: len(whole) // 2]) == 422


def test_only_the_first_frame_counts() -> None:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "blue")]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    pixels = decode_upload(out.getvalue(), 8, 3, PIXELS)
    assert pixels[0].min() > 200 and pixels[2].max() < 50


def test_two_thousand_mutated_pictures_are_read_or_refused() -> None:
    answers = dict.fromkeys((200, 413, 415, 422), 0)
    for body in mutants(2000):
        answers[status(body)] += 1
    assert answers[200] > 200 and answers[415] > 100 and answers[422] > 100
