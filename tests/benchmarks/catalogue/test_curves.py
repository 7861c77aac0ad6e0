"""The picture of README shows the stored results, all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks import DOCS
from benchmarks.catalogue import RESULTS, curves
from benchmarks.catalogue.tables import means, stored
from eigenmap.demo.methods import NAMES


def test_curves_are_the_means_of_the_page() -> None:
    runs = stored(RESULTS)
    for scene in curves.TITLES:
        drawn = {curve.key: curve for curve in curves.curves(runs, scene)}
        assert list(drawn) == list(NAMES)
        for key, curve in drawn.items():
            assert curve.values == pytest.approx(means(runs, scene, key))
        assert drawn["ours"].spread[8] > 0 and drawn["pixels"].spread[784] == 0


def test_the_stored_picture_is_of_these_results(tmp_path: Path) -> None:
    """Fonts may differ by a pixel; a curve elsewhere changes far more."""
    curves.main(["--images", str(tmp_path)])
    new, old = (
        np.asarray(Image.open(path / "demo.png").convert("RGB"), dtype=float) for path in (tmp_path, DOCS / "images")
    )
    assert new.shape == old.shape
    assert np.abs(new - old).mean() < 0.5
