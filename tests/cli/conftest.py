from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from eigenmap import fit_images
from tests.cli.run import succeed
from tests.end_to_end.photos import KINDS, pictures, write_photos

torch.set_num_threads(1)  # the matrices are small: more threads would only wait for each other


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 8 features of 16-pixel pictures, hardly trained."""
    folder = tmp_path_factory.mktemp("models") / "model"
    model = fit_images(
        pictures(60), 8, steps=4, batch_size=32, codes="projector", hidden=64, out=folder, device="cpu", progress=False
    )
    assert model.n_components == 8
    return folder


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifteen photos in class folders, and a file that is none."""
    folder = tmp_path_factory.mktemp("photos")
    write_photos(folder, per_kind=5)
    (folder / "disc" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no picture")
    return folder


@pytest.fixture(scope="session")
def array_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve pictures with labels, as an .npz file."""
    file = tmp_path_factory.mktemp("arrays") / "pictures.npz"
    np.savez(file, images=pictures(12, seed=1), labels=np.array([KINDS[i % 3] for i in range(12)]))
    return file


@pytest.fixture(scope="session")
def index_dir(model_dir: Path, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("indexes") / "photos.index"
    succeed("index", model_dir, photos, "--out", folder)
    return folder
