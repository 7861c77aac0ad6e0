from __future__ import annotations

from pathlib import Path

import pytest

from eigenmap import fit_images
from eigenmap.data import ImageSet
from eigenmap.data.images import catalogue


@pytest.fixture(scope="session")
def garments() -> ImageSet:
    return catalogue.load("train").subset(range(120))


@pytest.fixture(scope="session")
def run_dir(garments: ImageSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checks and a monitor, hardly trained."""
    folder = tmp_path_factory.mktemp("runs") / "a <run> & more"
    settings = {"batch_size": 64, "hidden": 32, "codes": "projector"}
    fit_images(
        garments,
        8,
        steps=12,
        out=folder,
        device="cpu",
        progress=False,
        monitor_labels=True,
        recipe="catalogue",
        **settings,
    )
    return folder
