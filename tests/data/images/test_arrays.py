from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from eigenmap.core.errors import EigenmapError
from eigenmap.data import ImageSet, to_pixels
from eigenmap.data.images import arrays
from eigenmap.data.images.arrays import read_array_file


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)


def reference_pixel(pixel: np.ndarray, channels: int) -> list[float]:
    """One pixel of 1, 3 or 4 channels on white, as grey or colour, without rounding."""
    colour = [float(v) for v in pixel[:3]] if len(pixel) > 1 else [float(pixel[0])] * 3
    if len(pixel) == 4:
        colour = [v * pixel[3] / 255 + 255 - float(pixel[3]) for v in colour]
    grey = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]
    return colour if channels == 3 else [grey]


side = st.integers(1, 9).filter(lambda n: n not in (1, 3, 4))


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.ndarray, str, str, str]:
    n, height, width = draw(st.integers(0, 3)), draw(side), draw(side)
    layout = draw(st.sampled_from(["NHWC", "NCHW", "NHW"]))
    depth = 1 if layout == "NHW" else draw(st.sampled_from([1, 3, 4]))
    seed = draw(st.integers(0, 99))
    images = np.random.default_rng(seed).integers(0, 256, (n, height, width, depth), dtype=np.uint8)
    return images, layout, draw(st.sampled_from(["numpy", "torch"])), draw(st.sampled_from(DTYPES))


DTYPES = ["uint8", "int64", "float32", "float64", "float16"]


def arrange(images: np.ndarray, layout: str, container: str, dtype: str) -> np.ndarray | torch.Tensor:
    moved = {"NHWC": images, "NCHW": images.transpose(0, 3, 1, 2), "NHW": images[..., 0]}[layout]
    values = (moved / 255).astype(dtype) if dtype.startswith("float") else moved.astype(dtype)
    return values if container == "numpy" else torch.from_numpy(values.copy())


@settings(max_examples=150, deadline=None)
@given(batches(), st.sampled_from([1, 3]))
def test_every_layout_container_and_type_means_the_same(batch: tuple[np.ndarray, str, str, str], channels: int) -> None:
    images, layout, container, dtype = batch
    images = images[:, : min(images.shape[1:3]), : min(images.shape[1:3])]
    size = images.shape[1]
    got = to_pixels(arrange(images, layout, container, dtype), size, channels)
    assert got.dtype == torch.uint8
    assert got.shape == (len(images), channels, size, size)
    expected = np.array([reference_pixel(pixel, channels) for pixel in images.reshape(-1, images.shape[-1])])
    expected = expected.reshape(len(images), size, size, channels).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(got.numpy().astype(float), expected, atol=1.01, rtol=0)


@settings(max_examples=60, deadline=None)
@given(batches(), st.integers(1, 12), st.sampled_from([1, 3]))
def test_resizing_a_batch_is_resizing_each_image_as_a_file_would_be(
    batch: tuple[np.ndarray, str, str, str], size: int, channels: int
) -> None:
    images, layout, container, dtype = batch
    got = to_pixels(arrange(images, layout, container, dtype), size, channels)
    pictures = [Image.fromarray(image.squeeze(-1) if image.shape[-1] == 1 else image) for image in images]
    expected = to_pixels(pictures, size, channels)
    assert got.shape == expected.shape == (len(images), channels, size, size)
    assert (got.int() - expected.int()).abs().max().item() <= 1 if len(images) else True


def test_a_resized_image_keeps_its_centre_and_its_mean() -> None:
    images = np.zeros((1, 30, 60, 3), np.uint8)
    images[:, :, 15:45] = 80
    assert torch.equal(to_pixels(images, 10, 3)[..., 1:-1], torch.full((1, 3, 10, 8), 80, dtype=torch.uint8))


def test_alpha_and_grey_round_as_pillow_does() -> None:
    rgba = noise(64, 64, 4)
    picture = Image.fromarray(rgba)
    for channels in (1, 3):
        assert torch.equal(to_pixels(rgba[None], 64, channels), to_pixels(picture, 64, channels))


def test_ambiguous_layouts_follow_the_documented_rule() -> None:
    both = noise(2, 3, 8, 3)  # NHWC of 3 x 8 pixels, or NCHW of 8 x 3: the last axis wins.
    assert torch.equal(to_pixels(both, 8, 3), to_pixels([*both], 8, 3))
    one = noise(8, 8, 3)
    assert torch.equal(to_pixels(one, 8, 3)[0], torch.from_numpy(one.transpose(2, 0, 1).copy()))
    assert to_pixels(noise(3, 8, 8), 8, 1).shape == (3, 1, 8, 8)
    assert (
        to_pixels(torch.from_numpy(noise(2, 3, 3, 3)), 3, 3)[0, :, 0, 0].tolist() == noise(2, 3, 3, 3)[0, 0, 0].tolist()
    )


def test_lists_of_different_things() -> None:
    mixed = [Image.new("L", (5, 9), 100), noise(7, 6), noise(20, 10, 3), torch.from_numpy(noise(3, 11, 12))]
    got = to_pixels(mixed, 6, 3)
    assert got.shape == (4, 3, 6, 6)
    assert got[0].unique().tolist() == [100]
    assert torch.equal(got[3], to_pixels(noise(3, 11, 12)[None], 6, 3)[0])
    assert to_pixels([], 6, 3).shape == (0, 3, 6, 6)
    assert to_pixels(tuple(mixed[:1]), 6, 1).shape == (1, 1, 6, 6)


def test_pillow_images_are_turned_upright() -> None:
    image = Image.fromarray(noise(8, 8))
    image.getexif()[0x0112] = 3
    np.testing.assert_array_equal(to_pixels(image, 8, 1)[0, 0].numpy(), noise(8, 8)[::-1, ::-1])


def test_ready_pixels_are_not_copied() -> None:
    pixels = torch.from_numpy(noise(4, 3, 8, 8))
    assert to_pixels(pixels, 8, 3) is pixels
    images = ImageSet(pixels, list("abcd"))
    assert to_pixels(images, 8, 3) is pixels
    tiny = ImageSet(pixels[..., :3, :3].contiguous(), list("abcd"))
    assert torch.equal(to_pixels(tiny, 3, 3), tiny.pixels)
    assert to_pixels(tiny, 6, 1).shape == (4, 1, 6, 6)


def test_unusual_memory() -> None:
    images = noise(4, 8, 8, 3)
    expected = to_pixels(images, 8, 3)
    frozen = images.copy()
    frozen.setflags(write=False)
    assert torch.equal(to_pixels(frozen, 8, 3), expected)
    assert torch.equal(to_pixels(images[::-1], 8, 3), expected.flip(0))
    assert torch.equal(to_pixels(np.asfortranarray(images), 8, 3), expected)
    assert torch.equal(to_pixels((images / 255).astype(">f4"), 8, 3), expected)
    tensor = torch.from_numpy(images / 255).requires_grad_()
    assert torch.equal(to_pixels(tensor, 8, 3), expected)
    assert to_pixels(tensor.bfloat16(), 8, 3).shape == (4, 3, 8, 8)
    assert to_pixels(images > 127, 8, 3).unique().tolist() == [0, 255]


def test_more_images_than_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    images = noise(7, 8, 8)
    expected = to_pixels(images, 5, 1)
    monkeypatch.setattr(arrays, "_BLOCK", 3)
    assert torch.equal(to_pixels(images, 5, 1), expected)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((8, 8), np.uint8), "batch of images"),
        (np.zeros((2, 2, 8, 8, 3), np.uint8), "batch of images"),
        (np.zeros((2, 8, 8, 2), np.uint8), "batch of images"),
        (np.zeros((2, 0, 8, 3), np.uint8), "without pixels"),
        (np.full((2, 8, 8), np.nan), "not finite"),
        (np.full((2, 8, 8), np.inf), "not finite"),
        (np.full((2, 8, 8), 200.0), r"\[0, 1\].*200"),
        (np.full((2, 8, 8), -0.5), r"\[0, 1\]"),
        (np.full((2, 8, 8), 300), "255.*300"),
        (np.full((2, 8, 8), -1), "0 to 255"),
        (np.full((2, 8, 8), "x"), "contain numbers"),
        (np.zeros((2, 8, 8), complex), "contain numbers"),
        ("photo.jpg", "'photo.jpg'.*load_images"),
        (["photo.jpg"], "eigenmap"),
        (torch.zeros(2, 3, 4, 4).to_sparse(), "dense"),
        (torch.zeros(2, 3, 4, 4, device="meta"), "dense"),
        (None, "NoneType"),
        ([np.zeros(8, np.uint8)], "one image"),
        ([np.zeros((2, 8, 8, 3), np.uint8)], "one image"),
        ([np.full((8, 8), np.nan)], "not finite"),
    ],
)
def test_what_is_refused(images: object, message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        to_pixels(images, 8, 3)  # type: ignore[arg-type]


def test_bad_targets_are_refused() -> None:
    with pytest.raises(EigenmapError, match="not 2"):
        to_pixels(noise(1, 8, 8), 8, 2)
    with pytest.raises(EigenmapError, match="1 pixel"):
        to_pixels(noise(1, 8, 8), 0, 1)


def test_a_damaged_pillow_image_is_refused(tmp_path: Path) -> None:
    Image.fromarray(noise(64, 64, 3)).save(tmp_path / "a.png")
    (tmp_path / "a.png").write_bytes((tmp_path / "a.png").read_bytes()[:2000])
    with Image.open(tmp_path / "a.png") as image, pytest.raises(EigenmapError, match="used"):
        to_pixels(image, 8, 3)


# --- NumPy's files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image_key", "label_key"),
    [
        ("images", "labels"),
        ("x", "y"),
        ("X", "Y"),
        ("x", "targets"),
        ("x_train", "y_train"),
        ("train_x", "train_y"),
        ("train_images", "train_labels"),
        ("photos", "labels"),
    ],
)
def test_npz_keys(tmp_path: Path, image_key: str, label_key: str) -> None:
    np.savez(tmp_path / "a.npz", **{image_key: noise(3, 8, 8), label_key: np.array([4, 2, 4])})
    images, labels = read_array_file(tmp_path / "a.npz")
    np.testing.assert_array_equal(images, noise(3, 8, 8))
    assert labels is not None
    assert (labels.names, labels.to_integers().tolist()) == (["2", "4"], [1, 0, 1])


def test_npz_without_labels(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", noise(3, 8, 8))
    assert read_array_file(tmp_path / "a.npz")[1] is None


def test_unclear_npz_lists_its_keys(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x_train=noise(3, 8, 8), x_test=noise(3, 8, 8), y_train=np.zeros(3))
    with pytest.raises(EigenmapError, match=r"a\.npz.*x_train, x_test, y_train"):
        read_array_file(path)
    np.savez(path, edges=np.zeros((2, 9)))
    with pytest.raises(EigenmapError, match="has: edges"):
        read_array_file(path)
    np.savez(path)
    with pytest.raises(EigenmapError, match="has: nothing"):
        read_array_file(path)


def test_numpy_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("a.npy", "a.npz"):
        (tmp_path / name).write_bytes(b"nonsense")
        with pytest.raises(EigenmapError, match="NumPy file"):
            read_array_file(tmp_path / name)
    np.save(tmp_path / "pickled.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(EigenmapError, match="NumPy file"):
        read_array_file(tmp_path / "pickled.npy")
    np.savez(tmp_path / "cut.npz", images=noise(30, 8, 8))
    np.save(tmp_path / "cut.npy", noise(30, 8, 8))
    for name in ("cut.npy", "cut.npz"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:900])
        with pytest.raises(EigenmapError, match="NumPy file"):
            read_array_file(tmp_path / name)


def test_examples() -> None:
    assert doctest.testmod(arrays).failed == 0
