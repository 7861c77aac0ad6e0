from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from eigenmap import fit_images
from eigenmap.core.errors import EigenmapError
from eigenmap.data import load_images
from eigenmap.data.images import memory as room


def test_small_sets_lie_in_memory() -> None:
    pixels = room.allocate_pixels(3, 1, 4)
    assert pixels.shape == (3, 1, 4, 4) and pixels.dtype == torch.uint8


def test_pixels_that_do_not_fit_lie_in_a_file_without_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(room, "memory_bytes", lambda: 100)
    monkeypatch.setattr(room.tempfile, "tempdir", str(tmp_path))
    pixels = room.allocate_pixels(30, 3, 8)
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(tmp_path) in line]
    assert mapped and not list(tmp_path.iterdir())
    pixels[7] = 5
    assert int(pixels[7].sum()) == 5 * 3 * 64 and int(pixels[8].sum()) == 0


def test_a_disk_that_is_too_small_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(room, "memory_bytes", lambda: 100)
    monkeypatch.setattr(room.tempfile, "tempdir", str(tmp_path))
    with pytest.raises(EigenmapError, match=f"2,000,000 images.*20000.*{tmp_path}"):
        room.allocate_pixels(2_000_000, 3, 20_000)


def test_a_model_trained_from_a_file_is_the_model_trained_from_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    generator = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for i in range(40):
        Image.fromarray(generator.integers(0, 255, (12, 12, 3), dtype=np.uint8)).save(tmp_path / f"photos/{i}.png")
    settings = {"steps": 3, "batch_size": 8, "n_components": 4, "progress": False}
    in_memory = fit_images(tmp_path / "photos", **settings)  # type: ignore[arg-type]
    monkeypatch.setattr(room, "memory_bytes", lambda: 100)
    in_file = fit_images(tmp_path / "photos", **settings)  # type: ignore[arg-type]
    images = load_images(tmp_path / "photos").pixels[:5]
    np.testing.assert_array_equal(in_memory.encode(images), in_file.encode(images))
