from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eigenmap import Eigenmap, fit_images
from tests.end_to_end.photos import pictures, write_photos

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 8 features of 16-pixel pictures, hardly trained."""
    folder = tmp_path_factory.mktemp("models") / "run"
    fit_images(
        pictures(60), 8, steps=4, batch_size=32, codes="projector", hidden=64, out=folder, device="cpu", progress=False
    )
    return folder


@pytest.fixture(scope="session")
def model(run: Path) -> Eigenmap:
    return Eigenmap.load(run)


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty photos in class folders, and a file that is none."""
    folder = tmp_path_factory.mktemp("photos")
    write_photos(folder, per_kind=10)
    (folder / "disc" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no picture")
    return folder
