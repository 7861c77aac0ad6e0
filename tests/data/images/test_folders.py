from __future__ import annotations

import re
from pathlib import Path

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.folders import list_folder


def touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    return root


def test_files_at_any_depth_in_a_fixed_order(tmp_path: Path) -> None:
    touch(tmp_path, "b.PNG", "a/c/d/e.jpeg", "a/z.tif", "Ünïcödé/雪.webp", "notes.txt", "t.parquet")
    folder = list_folder(tmp_path)
    assert folder.images == ["a/c/d/e.jpeg", "a/z.tif", "b.PNG", "Ünïcödé/雪.webp"]
    assert (folder.parquet, folder.others) == (["t.parquet"], ["notes.txt"])


def test_hidden_files_and_folders_are_ignored(tmp_path: Path) -> None:
    touch(tmp_path, ".a.jpg", "._b.jpg", ".git/c.jpg", "d.jpg")
    assert list_folder(tmp_path).images == ["d.jpg"]


def test_a_folder_named_like_an_image_is_a_folder(tmp_path: Path) -> None:
    assert list_folder(touch(tmp_path, "odd.jpg/a.png")).images == ["odd.jpg/a.png"]


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    real = touch(tmp_path / "real", "a.jpg", "in/b.jpg")
    root = touch(tmp_path / "root", "c.jpg")
    (root / "linked").symlink_to(real)
    (root / "file.jpg").symlink_to(real / "a.jpg")
    (root / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    (real / "in" / "up").symlink_to(root)
    names = list_folder(root).images
    assert names == ["c.jpg", "file.jpg", "gone.jpg", "linked/a.jpg", "linked/in/b.jpg"]


def test_what_is_there_instead(tmp_path: Path) -> None:
    assert "is empty" in str(list_folder(tmp_path).without_images())
    touch(tmp_path, "a.txt", "b.txt", "c.pdf", "README")
    message = str(list_folder(tmp_path).without_images())
    assert re.search(r"4 .*\(2 \.txt, 1 ", message)


def test_a_folder_that_vanished(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match="No such file"):
        list_folder(tmp_path / "gone")


def test_a_subfolder_that_cannot_be_listed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    touch(tmp_path, "a.jpg", "shut/b.jpg")
    scandir = os.scandir

    def guarded(path: Path) -> object:
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    folder = list_folder(tmp_path)
    assert folder.images == ["a.jpg"]
    assert folder.closed == [("shut", "Permission denied")]
