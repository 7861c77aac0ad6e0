from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from eigenmap.core.errors import EigenmapError
from eigenmap.data import ImageSet, Labels, load_images
from eigenmap.data.images import sources


def noise(*shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save(path: Path, pixels: np.ndarray | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(20, 30, 3) if pixels is None else pixels).save(path)
    return path


def classes(images: ImageSet) -> list[str]:
    assert images.labels is not None
    return [images.labels.names[c] for c in images.labels.to_integers().tolist()]


# --- folders and files -------------------------------------------------------------------------------------------


def test_a_folder_with_class_folders(tmp_path: Path) -> None:
    for i, name in enumerate(["dog/b.png", "cat/sub/a.png", "cat/雪だるま.png"]):
        save(tmp_path / name, np.full((16, 16, 3), 10 * i, np.uint8))
    (tmp_path / "notes.txt").write_text("not an image")
    images = load_images(tmp_path)
    assert images.ids == ["cat/sub/a.png", "cat/雪だるま.png", "dog/b.png"]
    assert images.pixels.shape == (3, 3, 16, 16)
    assert images.pixels.dtype == torch.uint8
    assert images.pixels[:, 0, 0, 0].tolist() == [10, 20, 0]
    assert classes(images) == ["cat", "cat", "dog"]
    assert images.skipped == []


def test_a_folder_without_classes_as_a_string(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    save(tmp_path / "deep/b.png")
    images = load_images(str(tmp_path), size=10)
    assert (images.ids, images.labels) == (["a.png", "deep/b.png"], None)


def test_one_file_and_a_list_of_files(tmp_path: Path) -> None:
    first, second = save(tmp_path / "a.png", noise(40, 40)), save(tmp_path / "b.png", noise(40, 40, seed=6))
    assert load_images(first).ids == ["a.png"]
    images = load_images([str(second), first])
    assert images.ids == [str(second), str(first)]
    np.testing.assert_array_equal(images.pixels[0, 0].numpy(), noise(40, 40, seed=6))


def test_order_does_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    for i in range(40):
        save(tmp_path / f"{i:02d}.png", noise(9 + i, 70 - i, 3, seed=i))
    one = load_images(tmp_path, size=12, workers=1)
    many = load_images(tmp_path, size=12, workers=5)
    assert one.ids == many.ids == sorted(one.ids)
    assert torch.equal(one.pixels, many.pixels)


def test_progress_counts_every_file(tmp_path: Path) -> None:
    for i in range(5):
        save(tmp_path / f"{i}.png")
    (tmp_path / "9.png").write_bytes(b"")
    calls: list[tuple[int, int]] = []
    load_images(tmp_path, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(i + 1, 6) for i in range(6)]


# --- size and channels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shapes", "size"),
    [
        ([(28, 28)] * 3, 28),
        ([(64, 64)] * 3, 64),
        ([(65, 65)] * 3, 64),
        ([(28, 28), (28, 28), (32, 32)], 64),
        ([(28, 20)] * 3, 64),
        ([(1, 1)] * 3, 64),
        ([(300, 200), (1, 1), (1, 20_000)], 64),
    ],
)
def test_default_size(tmp_path: Path, shapes: list[tuple[int, int]], size: int) -> None:
    for i, shape in enumerate(shapes):
        save(tmp_path / f"{i}.png", noise(*shape, 3))
    images = load_images(tmp_path)
    assert images.pixels.shape == (3, 3, size, size)
    assert load_images([Image.open(tmp_path / f"{i}.png") for i in range(3)]).size == size


def test_default_channels(tmp_path: Path) -> None:
    save(tmp_path / "a.png", noise(16, 16))
    save(tmp_path / "b.png", noise(16, 16).astype(np.uint16) * 257)
    assert load_images(tmp_path).channels == 1
    assert load_images(tmp_path, channels=3).channels == 3
    save(tmp_path / "c.png", noise(16, 16, 3))
    assert load_images(tmp_path).channels == 3
    assert load_images(tmp_path, channels=1).channels == 1


def test_headers_are_read_no_further_than_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(9):
        save(tmp_path / f"{i}.png")
    read: list[object] = []
    header = sources.read_header
    monkeypatch.setattr(sources, "read_header", lambda file: read.append(file) or header(file))
    load_images(tmp_path)
    assert len(read) == 1
    load_images(tmp_path, size=8, channels=1)
    assert len(read) == 1


def test_bad_settings(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match="image size"):
        load_images(noise(2, 8, 8), size=0)
    with pytest.raises(EigenmapError, match="1 channel"):
        load_images(noise(2, 8, 8), channels=4)


def test_more_images_than_memory(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    with pytest.raises(EigenmapError, match=r"GB.*TMPDIR"):
        load_images(tmp_path, size=20_000_000)


# --- what cannot be read -----------------------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Four classes; in each of the first three something that is no image beside one that is."""
    for name in ("a/ok.png", "b/ok.png", "c/ok.png", "d/ok.png"):
        save(tmp_path / name)
    Image.fromarray(noise(99, 99, 3)).save(tmp_path / "a/cut.jpg")
    (tmp_path / "a/cut.jpg").write_bytes((tmp_path / "a/cut.jpg").read_bytes()[:3000])
    (tmp_path / "b/empty.jpg").write_bytes(b"")
    (tmp_path / "c/text.jpg").write_text("hello")
    (tmp_path / "c/gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    return tmp_path


def test_unreadable_files_are_skipped_and_listed(damaged: Path) -> None:
    images = load_images(damaged, size=16)
    assert images.ids == ["a/ok.png", "b/ok.png", "c/ok.png", "d/ok.png"]
    assert images.pixels.shape == (4, 3, 16, 16)
    assert all(torch.equal(image, images.pixels[0]) for image in images.pixels)
    assert classes(images) == ["a", "b", "c", "d"]
    reasons = dict(images.skipped)
    assert list(reasons) == ["a/cut.jpg", "b/empty.jpg", "c/gone.jpg", "c/text.jpg"]
    assert "truncated" in reasons["a/cut.jpg"]
    assert reasons["b/empty.jpg"] == "empty file"
    assert reasons["c/gone.jpg"] == "No such file or directory"
    assert "damaged" in reasons["c/text.jpg"]


def test_strict_raises_on_the_first(damaged: Path) -> None:
    with pytest.raises(EigenmapError, match=r"a/cut\.jpg.*truncated"):
        load_images(damaged, strict=True)


def test_a_folder_that_cannot_be_listed_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a.png")
    save(tmp_path / "shut/b.png")
    scandir = os.scandir

    def guarded(path: Path) -> object:
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    assert load_images(tmp_path).skipped == [("shut", "Permission denied")]
    with pytest.raises(EigenmapError, match=r"shut.*Permission denied"):
        load_images(tmp_path, strict=True)


def test_nothing_readable(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"")
    with pytest.raises(EigenmapError, match=r"^a\.jpg .*empty"):
        load_images(tmp_path)
    (tmp_path / "b.jpg").write_text("b")
    with pytest.raises(EigenmapError, match=r"2 images.*b\.jpg"):
        load_images(tmp_path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda root: root / "absent", "exist"),
        (lambda root: root, "is empty"),
        (lambda root: (root / "a.txt").write_text("a") and root, "no images.*1 "),
        (lambda root: [root / "absent.jpg"], r"1 of 1.*absent\.jpg"),
        (lambda root: [], "list.*empty"),
        (lambda root: np.zeros((0, 8, 8)), "array.*empty"),
        (lambda root: ["a.jpg", Image.new("L", (8, 8))], "paths"),
        (lambda root: 17, "int"),
    ],
)
def test_bad_sources(tmp_path: Path, make: object, message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        load_images(make(tmp_path))  # type: ignore[operator]


# --- arrays ------------------------------------------------------------------------------------------------------


def test_arrays_of_every_kind() -> None:
    grey, colour = noise(4, 28, 28), noise(4, 32, 32, 3)
    assert load_images(grey).pixels.shape == (4, 1, 28, 28)
    assert load_images(colour).pixels.shape == (4, 3, 32, 32)
    assert load_images(noise(4, 32, 32, 4)).channels == 3
    assert load_images(torch.from_numpy(colour).permute(0, 3, 1, 2)).pixels.shape == (4, 3, 32, 32)
    assert load_images(noise(2, 100, 80, 3)).size == 64
    assert load_images(colour / 255).ids == ["0", "1", "2", "3"]
    assert torch.equal(load_images(colour / 255).pixels, load_images(colour).pixels)
    assert load_images([Image.fromarray(image) for image in grey]).pixels.shape == (4, 1, 28, 28)
    assert load_images([grey[0], colour[0]]).pixels.shape == (2, 3, 64, 64)
    assert load_images(Image.fromarray(colour[0])).ids == ["0"]
    calls: list[tuple[int, int]] = []
    load_images(grey, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(4, 4)]


def test_numpy_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", noise(5, 16, 16, 3) / 255)
    images = load_images(tmp_path / "a.npy")
    assert torch.equal(images.pixels, load_images(noise(5, 16, 16, 3)).pixels)
    np.savez(tmp_path / "b.npz", images=noise(3, 16, 16), labels=np.array([7, 1, 7]))
    images = load_images(tmp_path / "b.npz")
    assert (images.ids, classes(images)) == (["0", "1", "2"], ["7", "1", "7"])
    np.savez(tmp_path / "b.npz", images=noise(3, 16, 16), labels=np.array([7, 1]))
    with pytest.raises(EigenmapError, match=r"2 labels.*3 images"):
        load_images(tmp_path / "b.npz")


def test_an_image_set_can_be_loaded_again(tmp_path: Path) -> None:
    first = ImageSet(load_images(noise(3, 100, 100), size=96).pixels, list("abc"), Labels.from_integers([0, 1, 0]))
    assert load_images(first).pixels is first.pixels
    again = load_images(first, size=32, channels=3)
    assert (again.pixels.shape, again.ids, again.labels) == ((3, 3, 32, 32), list("abc"), first.labels)


# --- labels ------------------------------------------------------------------------------------------------------


def test_label_file_wins_over_class_folders_and_may_name_damaged_files(damaged: Path) -> None:
    table = damaged / "labels.csv"
    names = [p.relative_to(damaged).as_posix() for p in damaged.glob("*/*")]
    table.write_text("file,labels\n" + "".join(f"{name},{Path(name).parent.name * 2}\n" for name in names))
    images = load_images(damaged, labels=table)
    assert classes(images) == ["aa", "bb", "cc", "dd"]
    table.write_text("file,labels\nz/absent.jpg,x\n")
    with pytest.raises(EigenmapError, match=r"1 file \(z/absent\.jpg\)"):
        load_images(damaged, labels=str(table))


def test_given_labels_follow_the_source_past_skipped_files(damaged: Path) -> None:
    images = load_images(damaged, labels=np.arange(8))  # a/cut, a/ok, b/empty, b/ok, c/gone, c/ok, c/text, d/ok
    assert classes(images) == ["1", "3", "5", "7"]
    assert classes(load_images(noise(2, 8, 8), labels=["x", "y"])) == ["x", "y"]
    labels = Labels.from_names([["x", "y"], []])
    assert load_images(noise(2, 8, 8), labels=labels).labels is labels
    with pytest.raises(EigenmapError, match=r"3 labels.*8 images"):
        load_images(damaged, labels=[1, 2, 3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "large"}, "image size.*'large'"),
        ({"size": 8.5}, r"image size.*8\.5"),
        ({"workers": "all"}, "workers.*0.*'all'"),
        ({"source": ""}, "source.*''"),
    ],
    ids=str,
)
def test_arguments_of_the_wrong_kind_are_named(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=message):
        load_images(**{"source": tmp_path, **options})


@pytest.mark.parametrize("name", ["a.jpg", "a.npy", "a.npz", "a.parquet"])
def test_pipes_are_no_sources(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    for source in (tmp_path / name, [tmp_path / name]):
        with pytest.raises(EigenmapError, match=f"{name}.*regular"):
            load_images(source)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / name).symlink_to(tmp_path / name)
    with pytest.raises(EigenmapError, match=r"regular file|no images"):
        load_images(tmp_path / "folder")


def test_whole_pictures_keep_their_shapes(tmp_path: Path) -> None:
    for name, (width, height) in {"a.png": (40, 20), "b.png": (16, 32), "c.png": (24, 24)}.items():
        Image.new("RGB", (width, height), "red").save(tmp_path / name)
    (tmp_path / "bad.png").write_bytes(b"no image")
    images = load_images(tmp_path, size=16, uncut=True)
    assert images.pixels.shape == (3, 3, 16, 16) and len(images.skipped) == 1
    assert images.aspects is not None and images.aspects.tolist() == [2.0, 0.5, 1.0]
    some = images.subset([2, 0])
    assert some.aspects is not None and some.aspects.tolist() == [1.0, 2.0]
    assert load_images(tmp_path, size=16).aspects is None


def test_whole_arrays_have_to_be_square() -> None:
    images = load_images(np.zeros((3, 8, 8), np.uint8), uncut=True)
    assert images.aspects is not None and images.aspects.tolist() == [1, 1, 1]
    with pytest.raises(EigenmapError, match=r"square.*9 x 8"):
        load_images(np.zeros((3, 8, 9), np.uint8), uncut=True)
    with pytest.raises(EigenmapError, match=r"square.*8 x 9"):
        load_images([Image.new("L", (8, 9))], uncut=True)
