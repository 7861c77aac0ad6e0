from __future__ import annotations

import io
import os
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import IO

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageOps, PngImagePlugin

from eigenmap.data.images import decode
from eigenmap.data.images.decode import (
    UnreadableImageError,
    decode_image,
    decode_whole,
    fit_image,
    quiet_pillow,
    read_header,
)

S = 12


def noise(*shape: int, high: int = 256, dtype: type = np.uint8) -> np.ndarray:
    return np.random.default_rng(7).integers(0, high, shape).astype(dtype)


def encode(image: Image.Image, form: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def luma(rgb: np.ndarray) -> np.ndarray:
    return rgb @ np.array([0.299, 0.587, 0.114])


def assert_close(got: np.ndarray, expected: np.ndarray, atol: float) -> None:
    assert got.dtype == np.uint8
    np.testing.assert_allclose(got.astype(float), expected, atol=atol, rtol=0)


def triangle_resize(image: np.ndarray, size: int) -> np.ndarray:
    """Shortest side to ``size``, centre cut, antialiased triangle filter: slow, straight from the definition."""

    def weights(length: int, side: int) -> np.ndarray:
        scale = side / size
        reach = max(scale, 1.0)
        rows = []
        for i in range(size):
            centre = (length - side) / 2 + (i + 0.5) * scale
            w = np.array([max(0.0, 1 - abs(j + 0.5 - centre) / reach) for j in range(length)])
            rows.append(w / w.sum())
        return np.array(rows)

    height, width = image.shape[:2]
    side = min(height, width)
    return np.einsum("ih,hwc,jw->cij", weights(height, side), image.astype(float), weights(width, side), optimize=True)


# --- what files hold ---------------------------------------------------------------------------------------------


def test_colour_is_kept_exactly_at_native_size() -> None:
    rgb = noise(S, S, 3)
    np.testing.assert_array_equal(decode_image(encode(Image.fromarray(rgb)), S, 3), rgb.transpose(2, 0, 1))
    assert_close(decode_image(encode(Image.fromarray(rgb)), S, 1)[0], luma(rgb), atol=1)


def test_grey_is_kept_exactly_and_repeated_for_colour() -> None:
    grey = noise(S, S)
    data = encode(Image.fromarray(grey))
    np.testing.assert_array_equal(decode_image(data, S, 1), grey[None])
    np.testing.assert_array_equal(decode_image(data, S, 3), np.stack([grey] * 3))


def test_one_bit() -> None:
    bits = noise(S, S, high=2).astype(bool)
    np.testing.assert_array_equal(decode_image(encode(Image.fromarray(bits)), S, 1)[0], bits * 255)


@pytest.mark.parametrize("form", ["PNG", "TIFF", "WEBP"])
def test_transparency_is_laid_on_white(form: str) -> None:
    rgba = noise(S, S, 4)
    options = {"lossless": True, "exact": True} if form == "WEBP" else {}
    alpha = rgba[..., 3:] / 255
    expected = rgba[..., :3] * alpha + 255 * (1 - alpha)
    got = decode_image(encode(Image.fromarray(rgba), form, **options), S, 3)
    assert_close(got, expected.transpose(2, 0, 1), atol=0.51)


def test_grey_with_alpha() -> None:
    la = noise(S, S, 2)
    alpha = la[..., 1] / 255
    assert_close(decode_image(encode(Image.fromarray(la)), S, 1)[0], la[..., 0] * alpha + 255 * (1 - alpha), 0.51)


def test_transparent_colour_of_rgb() -> None:
    rgb = noise(S, S, 3)
    rgb[:3] = (9, 8, 7)
    data = encode(Image.fromarray(rgb), transparency=(9, 8, 7))
    expected = rgb.copy()
    expected[:3] = 255
    np.testing.assert_array_equal(decode_image(data, S, 3), expected.transpose(2, 0, 1))


@pytest.mark.parametrize("transparent", [False, True])
def test_palette(transparent: bool) -> None:
    colours, index = noise(16, 3), noise(S, S, high=16)
    image = Image.frombytes("P", (S, S), index.tobytes())
    image.putpalette(colours.tobytes())
    expected = colours[index]
    options: dict[str, object] = {}
    if transparent:
        opacity = noise(16)
        options["transparency"] = opacity.tobytes()
        alpha = opacity[index][..., None] / 255
        expected = expected * alpha + 255 * (1 - alpha)
    with quiet_pillow():
        assert_close(decode_image(encode(image, **options), S, 3), expected.transpose(2, 0, 1), atol=0.51)


def test_cmyk() -> None:
    cmyk = noise(S, S, 4)
    ink, black = cmyk[..., :3] / 255, cmyk[..., 3:] / 255
    got = decode_image(encode(Image.frombytes("CMYK", (S, S), cmyk.tobytes()), "TIFF"), S, 3)
    assert_close(got, (255 * (1 - ink) * (1 - black)).transpose(2, 0, 1), atol=1)


@pytest.mark.parametrize("form", ["PNG", "TIFF", "PPM"])
def test_16_bits_are_scaled_by_their_full_range(form: str) -> None:
    deep = noise(S, S, high=65536, dtype=np.uint16)
    deep[0, :2] = 0, 65535
    got = decode_image(encode(Image.fromarray(deep), form), S, 1)[0]
    assert_close(got, deep / 257, atol=0.5)
    assert (got[0, 0], got[0, 1]) == (0, 255)


def test_dim_16_bit_images_are_not_stretched() -> None:
    deep = np.full((S, S), 2570, np.uint16)
    assert np.unique(decode_image(encode(Image.fromarray(deep)), S, 1)).tolist() == [10]


def test_32_bit_integers_are_stretched() -> None:
    deep = noise(S, S, high=10**9, dtype=np.int32)
    span = (deep - deep.min()) / (deep.max() - deep.min())
    assert_close(decode_image(encode(Image.fromarray(deep), "TIFF"), S, 1)[0], span * 255, atol=0.5)


def test_floats_in_the_unit_interval_and_beyond() -> None:
    unit = np.random.default_rng(0).random((S, S), np.float32)
    assert_close(decode_image(encode(Image.fromarray(unit), "TIFF"), S, 1)[0], unit * 255, atol=0.5)
    height = unit * 800 - 100
    span = (height - height.min()) / (height.max() - height.min())
    assert_close(decode_image(encode(Image.fromarray(height), "TIFF"), S, 1)[0], span * 255, atol=0.5)
    flat = np.full((S, S), 7e6, np.float32)
    assert np.unique(decode_image(encode(Image.fromarray(flat), "TIFF"), S, 1)).tolist() == [0]


def test_floats_that_are_not_finite_are_refused() -> None:
    broken = np.full((S, S), np.nan, np.float32)
    with pytest.raises(UnreadableImageError, match="not finite"):
        decode_image(encode(Image.fromarray(broken), "TIFF"), S, 1)


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "TIFF"])
def test_first_frame_of_moving_images(form: str) -> None:
    frames = [Image.new("RGB", (S, S), colour) for colour in ("red", "lime", "blue")]
    options = {"lossless": True} if form == "WEBP" else {}
    data = encode(frames[0], form, save_all=True, append_images=frames[1:], **options)
    assert_close(decode_image(data, S, 3).mean((1, 2)).astype(np.uint8), np.array([255, 0, 0]), atol=0)


# --- orientation -------------------------------------------------------------------------------------------------

STORED = {
    1: lambda upright: upright,
    2: lambda upright: upright[:, ::-1],
    3: lambda upright: upright[::-1, ::-1],
    4: lambda upright: upright[::-1],
    5: lambda upright: upright.swapaxes(0, 1),
    6: lambda upright: np.rot90(upright, 1),  # A viewer turns it clockwise, so it is stored turned the other way.
    7: lambda upright: upright[::-1, ::-1].swapaxes(0, 1),
    8: lambda upright: np.rot90(upright, -1),
}


@pytest.mark.parametrize("form", ["PNG", "TIFF", "WEBP", "JPEG"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation(orientation: int, form: str) -> None:
    upright = np.kron(noise(5, 8, 3), np.ones((8, 8, 1), np.uint8))
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {
        "PNG": {},
        "TIFF": {},
        "WEBP": {"lossless": True},
        "JPEG": {"quality": 100, "subsampling": 0},
    }[form]
    data = encode(Image.fromarray(np.ascontiguousarray(STORED[orientation](upright))), form, exif=exif, **options)
    assert_close(decode_image(data, 10, 3), triangle_resize(upright, 10), atol=4 if form == "JPEG" else 1.01)


def test_nonsense_orientation_is_ignored() -> None:
    exif = Image.Exif()
    exif[0x0112] = 77
    rgb = noise(S, S, 3)
    got = decode_image(encode(Image.fromarray(rgb), exif=exif), S, 3)
    np.testing.assert_array_equal(got, rgb.transpose(2, 0, 1))


# --- size --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(37, 50), (50, 37), (31, 31), (16, 90), (7, 9), (1, 1), (2, 1)])
def test_resize_equals_the_slow_reference(shape: tuple[int, int]) -> None:
    rgb = noise(*shape, 3)
    assert_close(decode_image(encode(Image.fromarray(rgb)), 16, 3), triangle_resize(rgb, 16), atol=1.01)


def test_extreme_aspect_ratio_shows_the_middle() -> None:
    for axis, form in ((0, "PNG"), (1, "PNG"), (1, "JPEG")):
        line = np.full((20_000, 1) if axis == 0 else (1, 20_000), 10, np.uint8)
        np.moveaxis(line, axis, 0)[9_992:10_008] = 200
        got = decode_image(encode(Image.fromarray(line), form), 64, 3)
        assert got.shape == (3, 64, 64)
        assert_close(got, np.full((3, 64, 64), 200.0), atol=2)


def test_reduced_jpeg_decoding_agrees_with_the_whole_picture() -> None:
    y, x = np.mgrid[:375, :500] / 500
    rgb = (127 + 100 * np.stack([np.sin(9 * x + 5 * y), np.cos(7 * y * x), np.sin(20 * y)], -1)).astype(np.uint8)
    data = encode(Image.fromarray(rgb), "JPEG", quality=98, subsampling=0)
    assert_close(decode_image(data, 32, 3), triangle_resize(rgb, 32), atol=3)
    assert_close(decode_image(data, 32, 1)[0], luma(triangle_resize(rgb, 32).transpose(1, 2, 0)), atol=3)


def test_pillow_images_are_left_as_they_were() -> None:
    image = Image.fromarray(noise(20, 30, 4))
    before = image.tobytes()
    assert fit_image(image, 8, 3).shape == (3, 8, 8)
    assert (image.mode, image.size, image.tobytes()) == ("RGBA", (30, 20), before)


def test_header_tells_size_and_mode() -> None:
    assert read_header(encode(Image.new("L", (30, 20)))) == ((30, 20), "L")


# --- what cannot be read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"])
def test_truncated_files_are_refused(form: str) -> None:
    data = encode(Image.fromarray(noise(64, 64, 3)), form)
    with pytest.raises(UnreadableImageError):
        decode_image(data[: len(data) // 2], 16, 3)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_files_never_raise_anything_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    form = ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "PPM", "TGA", "JPEG2000"][seed % 9]
    data = bytearray(encode(Image.fromarray(noise(32, 32, 3)), form))
    for position in rng.integers(0, min(len(data), 400), 12):
        data[position] = rng.integers(256)
    with quiet_pillow():
        try:
            assert decode_image(bytes(data), 8, 3).shape == (3, 8, 8)
        except UnreadableImageError as error:
            assert str(error)


def test_reasons_are_readable(tmp_path: Path) -> None:
    def reason(name: str, content: bytes) -> str:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UnreadableImageError) as caught:
            decode_image(tmp_path / name, 8, 3)
        return str(caught.value)

    assert reason("a.jpg", b"") == "empty file"
    assert "damaged" in reason("b.jpg", b"hello")
    assert "pillow-heif" in reason("c.HEIC", b"\0\0\0\x18ftypheic\0\0\0\0heicmif1")
    assert "EPS" in reason("d.jpg", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    with pytest.raises(UnreadableImageError, match="No such file"):
        decode_image(tmp_path / "absent.png", 8, 3)
    with pytest.raises(UnreadableImageError, match="image bytes"):
        decode_image(None, 8, 3)


class PillowHeif(ModuleType):
    """A stand-in for pillow-heif, whose files are PNG behind the header of HEIC."""

    HEADER = b"\0\0\0\x10ftypheic\0\0\0\0"

    def register_heif_opener(self) -> None:
        def opened(file: IO[bytes], name: str | bytes) -> ImageFile.ImageFile:
            image = PngImagePlugin.PngImageFile(io.BytesIO(file.read()[len(self.HEADER) :]))
            image.format = "HEIF"
            return image

        Image.register_open("HEIF", opened, lambda start: start[4:12] == b"ftypheic")


@pytest.mark.parametrize("encoded", ["bytes", "file"])
def test_heic_is_read_if_pillow_heif_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoded: str
) -> None:
    picture = PillowHeif.HEADER + encode(Image.new("RGB", (20, 20), (10, 200, 30)))
    (tmp_path / "IMG_1.HEIC").write_bytes(picture)
    source = picture if encoded == "bytes" else tmp_path / "IMG_1.HEIC"
    decode._learn_heic.cache_clear()
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(UnreadableImageError, match="pip install pillow-heif"):
        decode_image(source, 8, 3)
    decode._learn_heic.cache_clear()
    monkeypatch.setitem(sys.modules, "pillow_heif", PillowHeif("pillow_heif"))
    monkeypatch.setattr(Image, "ID", [*Image.ID])
    monkeypatch.setattr(Image, "OPEN", {**Image.OPEN})
    assert (decode_image(source, 8, 3)[:, 4, 4] == (10, 200, 30)).all()
    decode._learn_heic.cache_clear()


def test_decompression_bombs_are_refused_and_large_images_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with quiet_pillow():
        assert decode_image(encode(Image.new("RGB", (12, 12))), 8, 3).shape == (3, 8, 8)
        with pytest.raises(UnreadableImageError, match="200 pixels"):
            decode_image(encode(Image.new("RGB", (30, 30))), 8, 3)


@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "folder"])
@pytest.mark.parametrize("linked", [False, True])
def test_what_is_not_a_regular_file_is_never_waited_for(tmp_path: Path, kind: str, linked: bool) -> None:
    place = tmp_path / "a.png"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "device":
        place = Path("/dev/zero")
    elif kind == "folder":
        place.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place))
    if linked:
        (tmp_path / "link.png").symlink_to(place)
        place = tmp_path / "link.png"
    for read in (read_header, lambda path: decode_image(path, S, 3)):
        with pytest.raises(UnreadableImageError, match=r"regular file|No such device"):
            read(place)


@pytest.mark.parametrize(("tag", "aspect"), [(1, 1.5), (3, 1.5), (6, 2 / 3), (8, 2 / 3)])
def test_a_whole_picture_is_squeezed_upright_into_the_square(tag: int, aspect: float) -> None:
    picture = Image.fromarray(noise(20, 30, 3))
    exif = Image.Exif()
    exif[0x0112] = tag
    found, shape = decode_whole(encode(picture, exif=exif), S, 3)
    assert found.shape == (3, S, S) and shape == pytest.approx(aspect)
    turned = ImageOps.exif_transpose(Image.open(io.BytesIO(encode(picture, exif=exif))))
    expected = np.asarray(turned.resize((S, S), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert_close(found, expected.astype(float), atol=1)


def test_a_whole_jpeg_decoded_at_a_smaller_scale_keeps_its_shape() -> None:
    picture = Image.fromarray(np.tile(np.linspace(0, 255, 375).astype(np.uint8), (500, 1)))
    found, shape = decode_whole(encode(picture, "JPEG", quality=95), S, 1)
    assert found.shape == (1, S, S) and shape == pytest.approx(375 / 500, rel=0.01)
    assert_close(found[0, 0], np.asarray(picture.resize((S, S), Image.Resampling.BILINEAR))[0].astype(float), atol=6)
