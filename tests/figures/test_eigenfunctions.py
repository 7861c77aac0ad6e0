"""Learned functions are drawn over the true ones with their sign, and the numbers beside them are theirs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.figures.eigenfunctions import Eigenfunctions, eigenfunction_figure
from eigenmap.figures.style import save, svg

X = np.linspace(-1, 1, 401)
TRUE = np.stack([np.ones_like(X), np.sin(np.pi * X), np.cos(np.pi * X)], 1)


def found(learned: np.ndarray, mu: tuple[float, ...] = (0.5, 0.2, 0.1)) -> Eigenfunctions:
    return Eigenfunctions(X, learned, TRUE, np.array(mu), np.array([0.5, 0.25, 0.1]))


def test_scale_and_sign_do_not_count() -> None:
    made = found(TRUE * [2.0, -3.0, 0.1])
    assert made.alignment == pytest.approx([1, 1, 1])
    learned, true = made.pairs
    assert learned == pytest.approx(true)
    assert made.eigenvalue_errors == pytest.approx([0, 0.2, 0])
    assert made.off_diagonal < 0.01 and np.diag(made.inner_products) == pytest.approx([1, 1, 1])


def test_a_repeated_function_shows_off_the_diagonal() -> None:
    made = found(TRUE[:, [0, 1, 1]])
    assert made.off_diagonal == pytest.approx(1)
    assert made.alignment[2] == pytest.approx(0, abs=0.01)


def test_the_figure_has_functions_products_and_eigenvalues(tmp_path: Path) -> None:
    figure = eigenfunction_figure(found(TRUE))
    functions, products, eigenvalues = (part for part in figure.axes if part.get_title(loc="left"))
    assert len(functions.get_lines()) == 6
    assert products.collections[0].get_array().shape in {(3, 3), (9,)}
    assert eigenvalues.get_yscale() == "log"
    assert {line.get_label() for line in eigenvalues.get_lines()} == {"true", "learned"}
    assert "diagonal" in svg(figure)
    files = save(figure, tmp_path / "rbf")
    assert [file.suffix for file in files] == [".svg", ".png"] and all(file.stat().st_size > 3000 for file in files)


def test_the_papers_functions_are_drawn_beside_ours() -> None:
    theirs = Eigenfunctions(X, -TRUE[:, :2], TRUE[:, :2], np.array([0.5, 0.2]), np.array([0.5, 0.25]))
    figure = eigenfunction_figure(found(TRUE), theirs)
    functions, ours, products, eigenvalues = (part for part in figure.axes if part.get_title(loc="left"))
    assert len(functions.get_lines()) == 8
    assert ours.collections[0].get_array().size == 9 and products.collections[0].get_array().size == 4
    assert {line.get_label() for line in eigenvalues.get_lines()} == {"true", "ours", "the paper's"}
    assert {"true", "ours", "the paper's"} <= {line.get_label() for line in functions.get_lines()}


def test_negative_eigenvalues_have_a_linear_axis() -> None:
    figure = eigenfunction_figure(found(TRUE, (0.5, 0.2, -0.1)))
    eigenvalues = next(part for part in figure.axes if part.get_title(loc="left") == "Eigenvalues")
    assert eigenvalues.get_yscale() == "linear"


@pytest.mark.parametrize("columns", [[], [0, 1]])
def test_sets_of_different_size_are_refused(columns: list[int]) -> None:
    with pytest.raises(EigenmapError, match="same number of learned and true"):
        found(TRUE[:, columns])
