from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from eigenmap.cli.figures.reproduce import learn_rbf_as_published, true_rbf
from tests.cli.run import refused, succeed


def test_the_figure_of_the_gaussian_kernel(tmp_path: Path) -> None:
    stem, numbers = tmp_path / "new" / "rbf", tmp_path / "rbf.json"
    words = ("reproduce", "figure-rbf", "--out", stem, "--components", 5, "--points", 128, "--json", numbers)
    printed = succeed(*words).out
    assert (tmp_path / "new" / "rbf.svg").read_text().startswith("<?xml")
    assert (tmp_path / "new" / "rbf.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(numbers.read_text())
    assert min(found["alignment"]) > 0.95 and max(found["relative_eigenvalue_error"]) < 0.2
    assert found["points"] == 128 and found["seed"] == 0 and len(found["inner_products"]) == 5
    paper = found["paper"]
    assert (paper["alpha"], paper["width"], paper["steps"], len(paper["inner_products"])) == (5, 256, 600, 3)
    assert min(paper["alignment"]) > 0.9 and paper["largest_off_diagonal"] < 0.2
    assert "alignment |<psi_j, phi_j>|: 0.9" in printed and f"{stem}.svg, {stem}.png" in printed

    assert "rbf.svg exists" in refused(*words)
    (tmp_path / "new" / "rbf.svg").unlink()
    assert "rbf.png exists" in refused(*words)


def test_the_tiny_scale_takes_fewer_positions_and_steps(tmp_path: Path) -> None:
    numbers = tmp_path / "rbf.json"
    succeed("reproduce", "figure-rbf", "--scale", "tiny", "--out", tmp_path / "rbf", "--json", numbers, "--quiet")
    found = json.loads(numbers.read_text())
    assert (found["scale"], found["points"], found["paper"]["steps"]) == ("tiny", 128, 200)
    assert min(found["alignment"][:5]) > 0.9 and found["paper"]["alignment"][0] > 0.9


def test_a_name_with_a_dot_and_a_name_with_an_ending(tmp_path: Path) -> None:
    words = ("reproduce", "figure-rbf", "--components", 2, "--points", 64, "--quiet", "--paper-steps", 2, "--out")
    succeed(*words, tmp_path / "rbf-0.3")
    succeed(*words, tmp_path / "other.png")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other.png", "other.svg", "rbf-0.3.png", "rbf-0.3.svg"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--components", "40"), "length scale 1"),
        (("--length-scale", "0"), r"length scale.*0\.03.*0"),
        (("--length-scale", "nan"), r"length scale.*0\.03.*nan"),
        (("--components", "6", "--points", "4"), "--components = 6.*4"),
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


def test_the_papers_functions_are_learned_by_its_objective() -> None:
    """Untrained outputs are nothing like the eigenfunctions; an alpha that cannot order so many functions is said."""
    said: list[str] = []
    begun, trained = (learn_rbf_as_published(1.0, 2, 64, 0, steps, said.append) for steps in (1, 300))
    assert min(trained.alignment) > 0.95 > 0.7 > min(begun.alignment)
    assert not said
    learn_rbf_as_published(1.0, 8, 512, 0, 1, said.append)
    assert len(said) == 1 and said[0].startswith("alpha = 5 is too small for this kernel")


def test_a_forgotten_word(tmp_path: Path) -> None:
    assert "figure-rbf" in refused("reproduce", tmp_path)
