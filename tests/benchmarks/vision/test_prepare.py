"""Image sets from folders, label files and arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks.vision import prepare, sets
from eigenmap.core.errors import EigenmapError
from tests.end_to_end.photos import pictures


def save(folder: Path, names: list[str]) -> None:
    for name, image in zip(names, pictures(len(names), 12), strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / name)


def make(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr("sys.argv", ["prepare.py", *map(str, arguments)])
    prepare.main()


def test_class_folders_become_class_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "train", ["b/1.png", "c/1.png", "c/2.png"])
    save(tmp_path / "test", ["a/1.png", "c/1.png"])
    out = tmp_path / "tiny.npz"
    make(monkeypatch, out, "--train", tmp_path / "train", "--test", tmp_path / "test", "--size", 8)
    train, test = sets.load(tmp_path, "tiny")
    assert train.images.shape == (3, 3, 8, 8) and test.images.shape == (2, 3, 8, 8)
    # The classes of both parts, by name: a, b, c.
    assert train.labels.tolist() == [1, 2, 2] and test.labels.tolist() == [0, 2]
    assert not train.multi_label


def test_numbered_classes_are_sorted_by_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("train", "test"):
        save(tmp_path / part, ["10/1.png", "2/1.png", "9/1.png"])
    make(monkeypatch, tmp_path / "tiny.npz", *("--train", tmp_path / "train", "--test", tmp_path / "test", "--size", 8))
    train, _ = sets.load(tmp_path, "tiny")
    assert train.labels.tolist() == [2, 0, 1]  # images lie in the order of their paths: 10, 2, 9


def test_a_label_file_with_several_labels_becomes_a_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "train", ["1.png", "2.png"])
    save(tmp_path / "query", ["3.png"])
    (tmp_path / "train.csv").write_text("file,labels\n1.png,cat dog\n2.png,\n")
    (tmp_path / "query.csv").write_text("file,labels\n3.png,dog\n")
    sources = ["--train", tmp_path / "train", "--test", tmp_path / "query"]
    labels = ["--train-labels", tmp_path / "train.csv", "--test-labels", tmp_path / "query.csv"]
    make(monkeypatch, tmp_path / "coco.npz", *sources, *labels, "--size", 8)
    train, test = sets.load(tmp_path, "coco")
    assert train.labels.int().tolist() == [[1, 1], [0, 0]] and test.labels.int().tolist() == [[0, 1]]
    assert train.multi_label
    with pytest.raises(EigenmapError, match=r"images in .*train have no labels"):
        make(monkeypatch, tmp_path / "coco.npz", *sources, "--size", 8)


def test_arrays_keep_their_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = pictures(6, 12)
    for name, part in (("train", slice(0, 4)), ("test", slice(4, 6))):
        np.savez(tmp_path / f"{name}.npz", images=images[part], labels=np.arange(6)[part] % 2)
    sources = ["--train", tmp_path / "train.npz", "--test", tmp_path / "test.npz"]
    make(monkeypatch, tmp_path / "cifar10.npz", *sources, "--size", 12)
    train, test = sets.load(tmp_path, "cifar10")
    assert np.array_equal(train.images.permute(0, 2, 3, 1).numpy(), images[:4])
    assert test.labels.tolist() == [0, 1]
