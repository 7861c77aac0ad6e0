from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch

from eigenmap import fit_images
from eigenmap.service.app import create_app
from eigenmap.service.explorer import Explorer
from tests.cli.run import succeed
from tests.end_to_end.photos import pictures, write_photos
from tests.service.running import serving

torch.set_num_threads(1)  # the matrices are small: more threads would only wait for each other


@pytest.fixture(scope="session")
def photo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty photos in class folders."""
    folder = tmp_path_factory.mktemp("photos")
    write_photos(folder, per_kind=10)
    return folder


@pytest.fixture(scope="session")
def served_index(photo_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of them, by a model of 8 features that is hardly trained."""
    folder = tmp_path_factory.mktemp("served")
    fit_images(
        pictures(60), 8, steps=4, batch_size=32, codes="projector", hidden=64, out=folder / "model", device="cpu",
        progress=False,
    )  # fmt: skip
    succeed("index", folder / "model", photo_folder, "--out", folder / "photos.index", "--quiet")
    return folder / "photos.index"


@pytest.fixture(scope="session")
def explorer(served_index: Path) -> Explorer:
    made = Explorer.open(served_index)
    made.prepare()
    return made


@pytest.fixture(scope="session")
def client(explorer: Explorer) -> Iterator[httpx.Client]:
    with serving(create_app(explorer)) as made:
        yield made
