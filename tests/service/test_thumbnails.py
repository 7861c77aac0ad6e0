from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eigenmap import EigenmapError
from eigenmap.service.thumbnails import FILE, FirstOf, FolderPictures, StoredPictures, encode, media_type, store


def pixels(value: int, side: int = 16, channels: int = 3) -> np.ndarray:
    return np.full((channels, side, side), value, np.uint8)


def opened(content: bytes | None) -> Image.Image:
    assert content is not None
    return Image.open(io.BytesIO(content))


@pytest.mark.parametrize(("side", "kind", "shown"), [(16, "PNG", 16), (64, "JPEG", 64), (224, "JPEG", 96)])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_thumbnail_is_small_and_shows_the_picture(side: int, kind: str, shown: int, channels: int) -> None:
    content = encode(pixels(200, side, channels))
    image = opened(content)
    assert (image.format, image.size) == (kind, (shown, shown))
    assert image.mode == ("L" if channels == 1 else "RGB")
    assert media_type(content) == f"image/{kind.lower()}"
    assert np.abs(np.asarray(image, int) - 200).max() <= 2


def test_pictures_are_stored_found_and_replaced(tmp_path: Path) -> None:
    odd = "caf\udce9/ä b.jpg"  # a file name that is not UTF-8
    store(tmp_path, ["a", odd, 7], [pixels(10), pixels(20), pixels(30)])
    store(tmp_path, ["a"], [pixels(99)])
    stored = StoredPictures(tmp_path)
    for name, value in {"a": 99, odd: 20, "7": 30}.items():
        assert np.asarray(opened(stored.read(name))).max() == value
    assert stored.read("b") is None


def test_pictures_are_stored_all_or_none(tmp_path: Path) -> None:
    store(tmp_path, ["a"], [pixels(10)])
    with pytest.raises(ValueError):
        store(tmp_path, ["b", "c"], [pixels(20)])
    assert StoredPictures(tmp_path).read("b") is None


def test_a_damaged_store_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"this is no database" * 100)
    with pytest.raises(EigenmapError, match=r"thumbnails in .* cannot be read"):
        StoredPictures(tmp_path).read("a")


def test_pictures_of_a_folder_stay_inside_it(tmp_path: Path) -> None:
    inside = tmp_path / "photos"
    inside.mkdir()
    for place in (inside / "a.png", tmp_path / "secret.png"):
        Image.fromarray(np.full((40, 30, 3), 77, np.uint8)).save(place)
    (inside / "words.txt").write_text("no picture")
    folder = FolderPictures(inside)
    assert opened(folder.read("a.png")).size == (256, 256)
    for name in ("../secret.png", str(tmp_path / "secret.png"), "x/../../secret.png", "gone.png", "words.txt", "a\0b"):
        assert folder.read(name) is None
    with pytest.raises(EigenmapError, match="is no folder"):
        FolderPictures(tmp_path / "gone")


def test_the_first_place_that_has_a_picture_gives_it(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    store(tmp_path / "one", ["a"], [pixels(1)])
    store(tmp_path / "two", ["a", "b"], [pixels(2), pixels(3)])
    both = FirstOf([StoredPictures(tmp_path / "one"), StoredPictures(tmp_path / "two")])
    assert [np.asarray(opened(both.read(name))).max() for name in ("a", "b")] == [1, 3]
    assert both.read("c") is None
