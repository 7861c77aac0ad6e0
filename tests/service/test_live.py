"""Pictures of what is in the index now, and of nothing else."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from eigenmap.core.folders import exchange
from eigenmap.search import CodeIndex
from eigenmap.service.app import create_app
from eigenmap.service.explorer import Explorer, key_of
from tests.cli.run import succeed
from tests.service.running import serving

GONE, KEPT, NEW = "disc/1.png", "disc/5.png", "disc/new.png"


@pytest.fixture
def folder(photo_folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(photo_folder, tmp_path / "photos")


@pytest.fixture
def index(served_index: Path, tmp_path: Path) -> Path:
    return shutil.copytree(served_index, tmp_path / "photos.index")


@pytest.fixture
def live(index: Path, folder: Path) -> Iterator[httpx.Client]:
    """A service of its own, with larger pictures."""
    with serving(create_app(Explorer.open(index, folder))) as client:
        yield client


def image(client: httpx.Client, name: str) -> Image.Image | None:
    answer = client.get(f"/api/images/{key_of(name)}")
    if answer.status_code == 404:
        return None
    assert answer.status_code == 200
    return Image.open(io.BytesIO(answer.content))


def test_a_file_of_the_folder_that_is_not_in_the_index_has_no_picture(live: httpx.Client, folder: Path) -> None:
    shutil.copy(folder / KEPT, folder / "private.png")
    for name in ("private.png", "disc/./5.png", "./disc/5.png", "disc//5.png", str(folder / KEPT)):
        assert image(live, name) is None, name
    assert image(live, KEPT) is not None


def test_a_deleted_item_has_no_picture_any_more(live: httpx.Client, index: Path) -> None:
    assert image(live, GONE) is not None  # and from now on it is remembered
    CodeIndex.open(index).delete([GONE])
    assert image(live, GONE) is None
    assert live.get(f"/api/items/{key_of(GONE)}").status_code == 404
    assert image(live, KEPT) is not None


def test_a_deleted_item_has_no_picture_in_gallery_map_and_random_features(index: Path) -> None:
    explorer = Explorer.open(index)
    explorer.prepare()
    with serving(create_app(explorer)) as client:
        CodeIndex.open(index).delete([GONE])
        gallery = client.get("/api/features", params={"pictures": True}).json()
        shown = [item for feature in gallery for end in ("most", "least") for item in feature[end]]
        numbers = client.get("/api/items", params={"number": list(range(30)), "pictures": True}).json()["items"]
        asked = {"id": KEPT, "top": 50, "pictures": True}
        random = client.get("/api/search", params=asked | {"features": "random"}).json()["items"]
        for items in (shown, numbers, random):
            assert {item["id"] for item in items if item["picture"] is None} == {GONE}
        ordered = client.get("/api/search", params=asked).json()["items"]
        assert GONE not in [item["id"] for item in ordered] and all(item["picture"] for item in ordered)


def test_a_replaced_file_has_its_new_picture(live: httpx.Client, folder: Path) -> None:
    before = image(live, KEPT)
    Image.fromarray(np.full((40, 40, 3), 7, np.uint8)).save(folder / "new.png")
    (folder / "new.png").replace(folder / KEPT)
    after = image(live, KEPT)
    assert before is not None and after is not None and before.size == after.size == (256, 256)
    assert abs(np.asarray(after).astype(int) - 7).max() <= 2 < abs(np.asarray(before).astype(int) - 7).max()


def test_a_fifo_or_a_link_out_of_the_folder_leaves_the_stored_picture(
    live: httpx.Client, folder: Path, tmp_path: Path
) -> None:
    (folder / GONE).unlink()
    os.mkfifo(folder / GONE)
    (folder / KEPT).rename(tmp_path / "outside.png")
    (folder / KEPT).symlink_to(tmp_path / "outside.png")
    for name in (GONE, KEPT):
        found = image(live, name)
        assert found is not None and found.size == (16, 16)


def test_a_picture_comes_from_the_folder_that_the_item_came_from(index: Path, folder: Path, tmp_path: Path) -> None:
    """Two cameras give their photos the same names; a folder's own file must not stand for another's photo."""
    second = tmp_path / "second"
    (second / "disc").mkdir(parents=True)
    Image.fromarray(np.full((40, 40, 3), 7, np.uint8)).save(second / KEPT)
    succeed("index", index / "model", second, "--out", index, "--add", "--quiet")
    (added,) = [str(name) for name in CodeIndex.open(index).ids if str(name).startswith("second")]
    (folder / added).parent.mkdir(parents=True)
    shutil.copy(folder / GONE, folder / added)  # private: it has the name, and is not in the index
    for images, sizes in ((folder, (256, 16)), (second, (16, 256))):
        with serving(create_app(Explorer.open(index, images))) as client:
            found = [image(client, name) for name in (KEPT, added)]
        assert tuple(one.width for one in found if one is not None) == sizes


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """A folder with one photo, whose name no other has."""
    (tmp_path / "second" / "disc").mkdir(parents=True)
    Image.fromarray(np.full((40, 40, 3), 7, np.uint8)).save(tmp_path / "second" / NEW)
    return tmp_path / "second"


def test_a_folder_that_is_added_while_the_index_is_served(
    live: httpx.Client, index: Path, folder: Path, second: Path
) -> None:
    """Of old, its photos were answered with files of the first folder that have their names and were never indexed."""
    shutil.copy(folder / GONE, folder / NEW)
    assert image(live, NEW) is None
    succeed("index", index / "model", second, "--out", index, "--add", "--quiet")
    for name, width in ((NEW, 16), (KEPT, 256)):
        found = image(live, name)
        assert found is not None and found.width == width


def test_sources_of_an_index_that_takes_the_place_of_the_served_one(
    live: httpx.Client, index: Path, folder: Path, second: Path, tmp_path: Path
) -> None:
    shutil.copy(folder / GONE, folder / NEW)
    other = shutil.copytree(index, tmp_path / "other.index")
    succeed("index", index / "model", second, "--out", other, "--add", "--quiet")
    assert image(live, KEPT) is not None
    exchange(other, index)
    for name, width in ((NEW, 16), (KEPT, 256)):
        found = image(live, name)
        assert found is not None and found.width == width


def test_where_the_sources_are_damaged_no_file_is_shown(live: httpx.Client, index: Path) -> None:
    for content in ("[", "{}", '{"sources": 3}'):
        (index / "sources.json").write_text(content)
        found = image(live, KEPT)
        assert found is not None and found.width == 16


def test_whole_numbers_have_pictures_by_their_own_name_only(tmp_path: Path) -> None:
    from eigenmap.service.thumbnails import StoredPictures, store

    index = CodeIndex(2, where=tmp_path / "numbers")
    index.add(np.eye(2), [7, 1000])
    store(tmp_path / "numbers", [7, 1000, 8], np.zeros((3, 3, 16, 16), np.uint8))
    with serving(create_app(Explorer(index, None, "numbers", StoredPictures(tmp_path / "numbers")))) as client:
        found = {name: image(client, name) is not None for name in ("7", "1000", "8", "x", "")}
    assert found == {"7": True, "1000": True, "8": False, "x": False, "": False}
