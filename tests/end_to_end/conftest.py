from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tests.end_to_end.photos import write_photos
from tests.end_to_end.process import eigenmap

torch.set_num_threads(1)  # the matrices are small: more threads would only wait for each other

FIT = ("-k", 16, "--steps", 60, "--batch-size", 24, "--image-size", 16, "--device", "cpu")


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with PHOTOS/ (60 photos and a damaged one) and QUERIES/ (12 others of the same kinds)."""
    folder = tmp_path_factory.mktemp("home")
    write_photos(folder / "PHOTOS", per_kind=20)
    write_photos(folder / "QUERIES", per_kind=4, seed=1)
    (folder / "PHOTOS" / "disc" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no picture")
    return folder


@pytest.fixture(scope="session")
def fitted(home: Path) -> Path:
    """The same after `eigenmap fit images PHOTOS --out runs/mine`."""
    result = eigenmap("fit", "images", "PHOTOS", "--out", "runs/mine", *FIT, cwd=home)
    assert re.search(r"1 of 61 files.*\n  disc/broken\.jpg: ", result.err)
    return home


@pytest.fixture(scope="session")
def second_model(fitted: Path) -> Path:
    """Another model of PHOTOS, of 8 features."""
    eigenmap("fit", "images", "PHOTOS", "--out", "runs/second", *FIT, "-k", 8, "--seed", 1, cwd=fitted)
    return fitted / "runs" / "second"
