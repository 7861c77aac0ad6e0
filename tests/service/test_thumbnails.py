from __future__ import annotations

import io
import os
import socket
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eigenmap import EigenmapError
from eigenmap.search.verifying import _check_pictures
from eigenmap.service.thumbnails import FILE, FolderPictures, StoredPictures, encode, media_type, store


def pixels(value: int, side: int = 16, channels: int = 3) -> np.ndarray:
    return np.full((channels, side, side), value, np.uint8)


def opened(content: bytes | None) -> Image.Image:
    assert content is not None
    return Image.open(io.BytesIO(content))


@pytest.mark.parametrize(
    ("side", "kind", "shown"), [(16, "PNG", 16), (64, "JPEG", 64), (224, "JPEG", 96), (256, "JPEG", 96)]
)
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
    with pytest.raises(EigenmapError, match=r"thumbnails.*read"):
        StoredPictures(tmp_path).read("a")


@pytest.mark.parametrize("value", [10**12, None, "text"])
def test_what_is_no_picture_in_a_store_is_named(tmp_path: Path, value: object) -> None:
    """Of old a number was taken for so many bytes of memory."""
    store(tmp_path, ["a"], [pixels(0)])
    with closing(sqlite3.connect(tmp_path / FILE)) as connection, connection:
        connection.execute("CREATE TABLE other AS SELECT id, ? AS image FROM thumbnails", (value,))
        connection.execute("DROP TABLE thumbnails")
        connection.execute("ALTER TABLE other RENAME TO thumbnails")
    with pytest.raises(EigenmapError, match=FILE):
        StoredPictures(tmp_path).read("a")


def test_a_store_whose_schema_is_no_text_is_named(tmp_path: Path) -> None:
    store(tmp_path, ["a"], [pixels(0)])
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes().replace(b"CREATE TABLE", b"CR\xe3\xffTE TABLE"))
    with pytest.raises(EigenmapError, match=FILE):
        StoredPictures(tmp_path).read("a")
    with pytest.raises(EigenmapError, match=FILE):
        _check_pictures(file)


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
    with pytest.raises(EigenmapError, match=r"gone.*folder"):
        FolderPictures(tmp_path / "gone")


def test_links_that_lead_out_are_not_followed_and_those_inside_are(tmp_path: Path) -> None:
    inside, outside = tmp_path / "photos", tmp_path / "private"
    for place in (inside / "deep", outside):
        place.mkdir(parents=True)
        Image.fromarray(np.full((40, 30, 3), 77, np.uint8)).save(place / "a.png")
    (inside / "out.png").symlink_to(outside / "a.png")
    (inside / "relative.png").symlink_to("../private/a.png")
    (inside / "folder").symlink_to(outside)
    (inside / "twice.png").symlink_to("out.png")
    (inside / "loop.png").symlink_to("loop.png")
    (inside / "good.png").symlink_to("deep/a.png")
    (inside / "good").symlink_to("deep")
    folder = FolderPictures(inside)
    for name in ("out.png", "relative.png", "folder/a.png", "twice.png", "loop.png", "deep", "", ".", "good"):
        assert folder.read(name) is None, name
    for name in ("deep/a.png", "good.png", "good/a.png", "deep/./a.png"):
        assert opened(folder.read(name)).size == (256, 256), name
    (tmp_path / "link").symlink_to(inside)
    assert FolderPictures(tmp_path / "link").read("deep/a.png") is not None  # the folder itself may be one


def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(tmp_path: Path) -> None:
    """Somebody swaps a folder for a link, back and forth, while pictures are read: never the one outside."""
    inside, outside = tmp_path / "photos", tmp_path / "private"
    for place, value in ((inside / "real", 0), (outside, 255)):
        place.mkdir(parents=True)
        Image.fromarray(np.full((8, 8, 3), value, np.uint8)).save(place / "a.png")
    (inside / "link").symlink_to(outside)
    over, seen = threading.Event(), 0

    def swap() -> None:
        while not over.is_set():
            for source, target in (("real", "kept"), ("link", "real"), ("real", "link"), ("kept", "real")):
                (inside / source).rename(inside / target)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(2000):
            picture = FolderPictures(inside, 16).read("real/a.png")
            seen += picture is not None
            assert picture is None or np.asarray(opened(picture)).max() == 0
    finally:
        over.set()
        swapping.join()
    assert FolderPictures(inside, 16).read("real/a.png") is not None


@pytest.mark.parametrize("kind", ["fifo", "link to a fifo", "socket", "device"])
def test_nothing_but_regular_files_is_opened(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "a.png"
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(place))
    elif kind == "device":
        place.symlink_to("/dev/zero")
    else:
        os.mkfifo(tmp_path / "b.png" if "link" in kind else place)
        if "link" in kind:
            place.symlink_to("b.png")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(FolderPictures(tmp_path).read, "a.png")
        try:
            assert reading.result(timeout=60) is None
        except TimeoutError:
            os.close(os.open(place, os.O_WRONLY | os.O_NONBLOCK))  # let the thread go that waits for a writer
            raise


def test_a_picture_that_changes_is_not_the_remembered_one(tmp_path: Path) -> None:
    folder = FolderPictures(tmp_path, 16)
    for value in (10, 20):
        Image.fromarray(np.full((8, 8, 3), value, np.uint8)).save(tmp_path / "new.png")
        (tmp_path / "new.png").replace(tmp_path / "a.png")
        for _ in range(2):
            assert np.asarray(opened(folder.read("a.png"))).max() == value
    (tmp_path / "a.png").unlink()
    assert folder.read("a.png") is None


def test_a_store_that_is_replaced_is_read_anew(tmp_path: Path) -> None:
    for name, value in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        store(tmp_path / name, ["a"], [pixels(value)])
    stored = StoredPictures(tmp_path / "one")
    assert np.asarray(opened(stored.read("a"))).max() == 1
    (tmp_path / "one").rename(tmp_path / "old")
    assert stored.read("a") is None
    (tmp_path / "two").rename(tmp_path / "one")
    assert np.asarray(opened(stored.read("a"))).max() == 2


@pytest.mark.parametrize("side", [64, 128, 256])
def test_pictures_of_a_folder_have_the_side_asked_for(tmp_path: Path, side: int) -> None:
    Image.new("RGB", (300, 300)).save(tmp_path / "a.png")
    assert opened(FolderPictures(tmp_path, side).read("a.png")).size == (side, side)
