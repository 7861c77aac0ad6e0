from __future__ import annotations

import errno
import json
import re
import shutil
import socket
from pathlib import Path

import numpy as np
import pytest

from eigenmap.data.images import catalogue
from eigenmap.search import CodeIndex
from eigenmap.search.backend import KeepsNotes
from eigenmap.service.quality import SEVERAL
from eigenmap.service.thumbnails import StoredPictures
from tests.cli.run import refused, succeed


def test_an_index_holds_pictures_unless_told_otherwise(
    index_dir: Path, model_dir: Path, photos: Path, tmp_path: Path
) -> None:
    stored = StoredPictures(index_dir)
    assert all(stored.read(str(name)) for name in CodeIndex.open(index_dir).ids)
    succeed("index", model_dir, photos, "--out", tmp_path / "bare.index", "--no-thumbnails", "--quiet")
    assert StoredPictures(tmp_path / "bare.index").read("bars/1.png") is None


def test_pictures_are_added_with_images(model_dir: Path, array_file: Path, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "an.index"
    succeed("index", model_dir, photos, "--out", out, "--quiet")
    succeed("index", model_dir, array_file, "--out", out, "--add", "--quiet")
    stored = StoredPictures(out)
    assert all(stored.read(str(name)) for name in CodeIndex.open(out).ids)


def test_an_index_says_where_labels_are_several(model_dir: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (6, 16, 16, 3), np.uint8)
    for name, labels, several in (
        ("one", np.array(["ankle boot", "bag"] * 3), False),
        ("many", np.array([[1, 0], [1, 1], [0, 1]] * 2), True),
    ):
        np.savez(tmp_path / f"{name}.npz", images=images, labels=labels)
        succeed("index", model_dir, tmp_path / f"{name}.npz", "--out", tmp_path / name, "--quiet")
        backend = CodeIndex.open(tmp_path / name).backend
        assert isinstance(backend, KeepsNotes)
        assert (backend.read_note(SEVERAL) is not None) == several


def test_the_catalogue_can_be_indexed(model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = catalogue.load
    monkeypatch.setattr(catalogue, "load", lambda split: whole(split).subset(range(20)))
    succeed("index", model_dir, "catalogue", "--out", tmp_path / "an.index", "--quiet")
    index = CodeIndex.open(tmp_path / "an.index")
    assert index.ids[0] == "train/00000" and index.metadata(["train/00009"]) == [{"label": "ankle boot"}]


def test_mistakes_in_serving(index_dir: Path, model_dir: Path, tmp_path: Path) -> None:
    assert "--token" in refused("serve", index_dir, "--host", "0.0.0.0")
    assert "16 characters" in refused("serve", index_dir, "--token", "short")
    for seconds in ("0", "-1", "nan", "1e9"):
        assert "--timeout" in refused("serve", index_dir, "--timeout", seconds)
    assert "not an index" in refused("serve", model_dir, "--port", 0)
    assert "directory" in refused("serve", tmp_path / "gone", "--port", 0)
    address = "postgresql://me:secret@host/x"
    assert re.search("folder.*table", refused("serve", address))
    assert "0 to 65535, not 70000" in refused("serve", index_dir, "--port", 70_000)
    assert re.search("folder.*--images", refused("serve", index_dir, "--port", 0, "--images", tmp_path / "gone"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1, port {port}" in refused("serve", index_dir, "--port", port)
    moved = shutil.copytree(index_dir, tmp_path / "moved")
    about = json.loads((moved / "index.json").read_text())
    (moved / "index.json").write_text(json.dumps(about | {"fingerprint": "0123456789abcdef"}))
    assert "model 0123456789ab" in refused("serve", moved, "--port", 0)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            socket.gaierror(-2, "Name or service not known"),
            r"there.*--host 0\.0\.0\.0",
        ),
        (
            OSError(errno.EADDRNOTAVAIL, "Cannot assign (while attempting to bind on address ('there', 8000))"),
            "there, port 8000.*Cannot assign.*--host",
        ),
        (
            OSError(errno.EACCES, "Permission denied"),
            "there, port 8000.*Permission denied.*--port",
        ),
    ],
)
def test_an_address_that_is_not_ours(
    index_dir: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, sentence: str
) -> None:
    def create_server(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(socket, "create_server", create_server)
    assert re.search(sentence, refused("serve", index_dir, "--host", "there", "--token", "a-secret-of-some-length"))
