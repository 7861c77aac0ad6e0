"""Learned and true eigenfunctions, their inner products and eigenvalues.

found = Eigenfunctions(x, learned, true, eigenvalues, true_eigenvalues)
save(eigenfunction_figure(found), Path("figures/rbf"))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from eigenmap.core.errors import EigenmapError
from eigenmap.figures.style import INK, MUTED, OKABE_ITO, PAPER, add_axes, new_figure, series_style, styled, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = npt.NDArray[np.floating[Any]]

SPACING = 3.4
"""Distance between the zero lines of two functions, in units of their root mean square."""


@dataclass(frozen=True)
class Eigenfunctions:
    """Functions on evenly spaced points of their domain, in descending order of eigenvalue.

    Attributes:
        x: (m,) points in ascending order.
        learned: (m, k) values of the learned functions, with arbitrary scale and sign.
        true: (m, k) values of the true functions.
        eigenvalues: (k,) eigenvalues of the learned functions.
        true_eigenvalues: (k,) eigenvalues of the true functions.

    """

    x: Values
    learned: Values
    true: Values
    eigenvalues: Values
    true_eigenvalues: Values

    def __post_init__(self) -> None:
        m, k = self.true.shape
        shapes = (self.x.shape, self.learned.shape, self.eigenvalues.shape, self.true_eigenvalues.shape)
        if shapes != ((m,), (m, k), (k,), (k,)) or k == 0:
            raise EigenmapError("Give the same number of learned and true functions, at least one, on the same points.")

    @cached_property
    def pairs(self) -> tuple[Values, Values]:
        """Return both sets with mean square 1, the learned ones with the sign of the true ones."""
        learned, true = (values / np.sqrt(np.mean(values**2, axis=0)) for values in (self.learned, self.true))
        signs = np.where(np.sum(learned * true, axis=0) < 0, -1.0, 1.0)
        return learned * signs, true

    @property
    def alignment(self) -> Values:
        """|<psi_j, phi_j>| for every j."""
        learned, true = self.pairs
        return np.asarray(np.abs(np.mean(learned * true, axis=0)))

    @property
    def inner_products(self) -> Values:
        """<psi_i, psi_j> of the learned functions."""
        learned, _ = self.pairs
        return np.asarray(learned.T @ learned / len(learned))

    @property
    def off_diagonal(self) -> float:
        """Largest inner product of two different learned functions."""
        return float(np.abs(self.inner_products - np.diag(np.diag(self.inner_products))).max())

    @property
    def eigenvalue_errors(self) -> Values:
        """|mu - true| / true for every j."""
        return np.abs(self.eigenvalues - self.true_eigenvalues) / np.abs(self.true_eigenvalues)


def eigenfunction_figure(found: Eigenfunctions, paper: Eigenfunctions | None = None) -> Figure:
    """Draw functions on the left, the true ones dashed, and inner products and eigenvalues on the right.

    `paper` are functions learned with the paper's objective, also drawn; there may be fewer of them.
    """
    k = len(found.eigenvalues)
    height = max(4.6, 0.52 * k + 1.0)
    figure = new_figure(10.4 if paper is None else 12.6, height)
    with styled():
        left, right = cast(Any, figure.subfigures(1, 2, width_ratios=(1.45, 1.0) if paper is None else (1.2, 1.0)))
        top, bottom = cast(Any, right.subfigures(2, 1))
    for part in (left, right, top, bottom):
        part.set_facecolor("none")
    _functions(add_axes(left, title="Eigenfunctions, leading one on top", xlabel="x"), found, paper)
    columns = 1 if paper is None else 2
    title = "Inner products, " + ("learned" if paper is None else "ours")
    _inner_products(add_axes(top, (1, columns, 1), title=title), found)
    if paper is not None:
        _inner_products(add_axes(top, (1, columns, 2), title="The paper's"), paper, OKABE_ITO["vermillion"])
    _eigenvalues(add_axes(bottom, title="Eigenvalues", xlabel="feature"), found, paper)
    return figure


def _functions(axes: Axes, found: Eigenfunctions, paper: Eigenfunctions | None) -> None:
    learned, true = found.pairs
    bases = -SPACING * np.arange(learned.shape[1])
    for j, base in enumerate(bases):
        first = "" if j == 0 else "_"
        name = "learned" if paper is None else "ours"
        axes.plot(found.x, learned[:, j] + base, color=OKABE_ITO["blue"], linewidth=2.2, label=first + name)
        if paper is not None and j < len(paper.eigenvalues):
            theirs = paper.pairs[0][:, j] + base
            axes.plot(paper.x, theirs, color=OKABE_ITO["vermillion"], linewidth=1.6, label=f"{first}the paper's")
        dashes = (0, (4.0, 2.4))
        axes.plot(found.x, true[:, j] + base, color=INK, linewidth=1.1, linestyle=dashes, label=f"{first}true")
        write_text(axes, 1.01, base, _alignments(found, paper, j), **_beside(axes))
    write_text(axes, 1.01, SPACING * 0.75, "|<ψ, φ>|", color=INK, **_beside(axes))
    axes.set_yticks(bases, [str(j + 1) for j in range(len(bases))])
    lowest = min(float((values[:, -1] + bases[-1]).min()) for values in (learned, true))
    axes.set_ylim(min(bases[-1] - 0.5 * SPACING, lowest) - 0.1 * SPACING, 0.95 * SPACING)
    axes.margins(x=0.01)
    with styled():
        axes.legend(loc="upper left", ncols=3, handlelength=3.2, borderaxespad=0.0)


def _alignments(found: Eigenfunctions, paper: Eigenfunctions | None, j: int) -> str:
    """Return the text beside function j: our alignment, and below it the paper's."""
    theirs = "" if paper is None or j >= len(paper.eigenvalues) else f"\n{paper.alignment[j]:.3f}"
    return f"{found.alignment[j]:.3f}{theirs}"


def _beside(axes: Axes) -> dict[str, Any]:
    return {"transform": axes.get_yaxis_transform(), "va": "center", "ha": "left"}


def _inner_products(axes: Axes, found: Eigenfunctions, colour: str = OKABE_ITO["blue"]) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    size = len(found.eigenvalues)
    edges = np.arange(size + 1) + 0.5
    colours = LinearSegmentedColormap.from_list("inner products", [PAPER, colour])
    # Squares are drawn as shapes, not as an image, so that an SVG stays sharp.
    mesh = axes.pcolormesh(edges, edges, np.abs(found.inner_products), cmap=colours, vmin=0, vmax=1, linewidth=0)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.grid(False)
    ticks = sorted({1, *range(2, size + 1, 1 if size < 5 else max(2, size // 5))})
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    with styled():
        bar = axes.figure.colorbar(mesh, ax=axes, shrink=0.7)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)
    axes.set_xlabel(f"largest off the diagonal: {found.off_diagonal:.3f}", color=MUTED)


def _eigenvalues(axes: Axes, found: Eigenfunctions, paper: Eigenfunctions | None) -> None:
    place = np.arange(1, len(found.eigenvalues) + 1)
    true: dict[str, Any] = {"color": INK, "linewidth": 1.1, "linestyle": (0, (4.0, 2.4)), "label": "true"}
    axes.plot(place, found.true_eigenvalues, **true)
    name = "learned" if paper is None else "ours"
    axes.plot(place, found.eigenvalues, label=name, **(series_style("ours") | {"linestyle": ""}))
    drawn = [found.eigenvalues, found.true_eigenvalues]
    if paper is not None:
        theirs = {
            **series_style("random"),
            "linestyle": "",
            "markersize": 8,
            "markerfacecolor": "none",
            "markeredgecolor": OKABE_ITO["vermillion"],
        }
        axes.plot(place[: len(paper.eigenvalues)], paper.eigenvalues, label="the paper's", **theirs)
        drawn.append(paper.eigenvalues)
    if min(float(values.min()) for values in drawn) > 0:
        axes.set_yscale("log")
    ticks = [int(tick) for tick in place if tick == 1 or tick % 2 == 0]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    with styled():
        axes.legend(loc="lower left")
