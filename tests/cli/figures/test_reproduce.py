from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from eigenmap.cli.figures.reproduce import true_rbf
from tests.cli.run import refused, succeed


def test_the_figure_of_the_gaussian_kernel(tmp_path: Path) -> None:
    stem, numbers = tmp_path / "new" / "rbf", tmp_path / "rbf.json"
    words = ("reproduce", "figure-rbf", "--out", stem, "--components", 5, "--points", 256, "--json", numbers)
    printed = succeed(*words).out
    assert (tmp_path / "new" / "rbf.svg").read_text().startswith("<?xml")
    assert (tmp_path / "new" / "rbf.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(numbers.read_text())
    assert min(found["alignment"]) > 0.95 and max(found["relative_eigenvalue_error"]) < 0.2
    assert found["points"] == 256 and found["seed"] == 0 and len(found["inner_products"]) == 5
    assert "alignment |<psi_j, phi_j>|: 0.9" in printed and f"{stem}.svg, {stem}.png" in printed

    assert "rbf.svg exists" in refused(*words)
    (tmp_path / "new" / "rbf.svg").unlink()
    assert "rbf.png exists" in refused(*words)


def test_a_name_with_a_dot_and_a_name_with_an_ending(tmp_path: Path) -> None:
    words = ("reproduce", "figure-rbf", "--components", 2, "--points", 64, "--quiet", "--out")
    succeed(*words, tmp_path / "rbf-0.3")
    succeed(*words, tmp_path / "other.png")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other.png", "other.svg", "rbf-0.3.png", "rbf-0.3.svg"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--components", "40"), "length scale 1"),
        (("--length-scale", "0"), r"length scale.*0\.03.*0"),
        (("--length-scale", "nan"), r"length scale.*0\.03.*nan"),
        (("--components", "6", "--points", "4"), "n_components = 6.*4"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_written(tmp_path: Path, options: tuple[str, ...], sentence: str) -> None:
    assert re.search(sentence, refused("reproduce", "figure-rbf", "--out", tmp_path / "rbf", "--quiet", *options))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length_scale", [1.0, 0.03])
def test_the_true_functions_are_eigenvectors_on_a_fine_grid(length_scale: float) -> None:
    grid = (np.arange(800)[:, None] + 0.5) / 200 - 2
    mu, phi = true_rbf(grid, length_scale, 6)
    K = np.exp(-((grid - grid.T) ** 2) / (2 * length_scale**2))
    assert K @ phi / 800 == pytest.approx(mu * phi, abs=2e-4 * mu[0] * np.abs(phi).max())
    assert phi.T @ phi / 800 == pytest.approx(np.eye(6), abs=2e-3)


def test_a_forgotten_word(tmp_path: Path) -> None:
    assert "figure-rbf" in refused("reproduce", tmp_path)
