from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np

from eigenmap import CodeIndex
from eigenmap.service.thumbnails import StoredPictures
from tests.cli.run import refused, succeed


def test_items_and_their_thumbnails_are_deleted(index_dir: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(index_dir, tmp_path / "copy.index")
    first, second, *others = CodeIndex.open(copy).ids
    result = succeed("index", copy, "--delete", first, "--delete", second)
    assert re.search(r"copy\.index: 2 items deleted, 13 left", result.err)
    assert CodeIndex.open(copy).ids == others
    pictures = StoredPictures(copy)
    assert pictures.read(str(first)) is None and pictures.read(str(others[0])) is not None
    assert "1 item deleted" in succeed("index", copy, "--delete", others[0]).err
    assert "intact" in succeed("verify", copy).out


def test_an_unknown_id_deletes_nothing(index_dir: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(index_dir, tmp_path / "copy.index")
    first = CodeIndex.open(copy).ids[0]
    assert "'nobody.jpg'" in refused("index", copy, "--delete", first, "--delete", "nobody.jpg")
    assert len(CodeIndex.open(copy)) == 15 and StoredPictures(copy).read(str(first)) is not None


def test_whole_numbers_are_ids_too(tmp_path: Path) -> None:
    CodeIndex(2, where=tmp_path / "numbers").add(np.eye(2), [7, 8])
    assert "whole numbers" in refused("index", tmp_path / "numbers", "--delete", "seven")
    succeed("index", tmp_path / "numbers", "--delete", 7)
    assert CodeIndex.open(tmp_path / "numbers").ids == [8]


def test_nothing_else_is_given_with_delete(index_dir: Path, photos: Path) -> None:
    assert "INDEX --delete ID" in refused("index", index_dir, photos, "--delete", "a.jpg")


def test_a_search_says_which_field_no_item_has(index_dir: Path, photos: Path) -> None:
    photo = photos / "bars" / "1.png"
    assert "No item has the field labl" in succeed("search", index_dir, photo, "--where", "labl=bars").out
    assert "No item meets the conditions" in succeed("search", index_dir, photo, "--where", "label=boat").out
    both = succeed("search", index_dir, photo, "--where", "label=bars", "--where", "year>2000").out
    assert "No item has the field year," in both
