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
            raise EigenmapError("Give equally many learned and true functions, at least one, on the same points.")

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


def eigenfunction_figure(found: Eigenfunctions) -> Figure:
    """Draw functions on the left, the true ones dashed; inner products and eigenvalues on the right."""
    k = len(found.eigenvalues)
    height = max(4.6, 0.52 * k + 1.0)
    figure = new_figure(10.4, height)
    with styled():
        left, right = cast(Any, figure.subfigures(1, 2, width_ratios=(1.45, 1.0)))
    for part in (left, right):
        part.set_facecolor("none")
    _functions(add_axes(left, title="Eigenfunctions, leading one on top", xlabel="x"), found)
    _inner_products(add_axes(right, (2, 1, 1), title="Inner products, learned"), found)
    _eigenvalues(add_axes(right, (2, 1, 2), title="Eigenvalues", xlabel="feature"), found)
    return figure


def _functions(axes: Axes, found: Eigenfunctions) -> None:
    learned, true = found.pairs
    bases = -SPACING * np.arange(learned.shape[1])
    for j, base in enumerate(bases):
        labels = ("learned", "true") if j == 0 else ("_learned", "_true")
        axes.plot(found.x, learned[:, j] + base, color=OKABE_ITO["blue"], linewidth=2.2, label=labels[0])
        axes.plot(found.x, true[:, j] + base, color=INK, linewidth=1.1, linestyle=(0, (4.0, 2.4)), label=labels[1])
        write_text(
            axes, 1.01, base, f"{found.alignment[j]:.3f}", transform=axes.get_yaxis_transform(), va="center", ha="left"
        )
    write_text(
        axes, 1.01, SPACING * 0.75, "|<ψ, φ>|", transform=axes.get_yaxis_transform(), va="center", ha="left", color=INK
    )
    axes.set_yticks(bases, [str(j + 1) for j in range(len(bases))])
    lowest = min(float((values[:, -1] + bases[-1]).min()) for values in (learned, true))
    axes.set_ylim(min(bases[-1] - 0.5 * SPACING, lowest) - 0.1 * SPACING, 0.95 * SPACING)
    axes.margins(x=0.01)
    with styled():
        axes.legend(loc="upper left", ncols=2, handlelength=3.2, borderaxespad=0.0)


def _inner_products(axes: Axes, found: Eigenfunctions) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    size = len(found.eigenvalues)
    edges = np.arange(size + 1) + 0.5
    colours = LinearSegmentedColormap.from_list("inner products", [PAPER, OKABE_ITO["blue"]])
    # Squares as shapes rather than an image, so that the SVG stays sharp.
    mesh = axes.pcolormesh(edges, edges, np.abs(found.inner_products), cmap=colours, vmin=0, vmax=1, linewidth=0)
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.grid(False)
    ticks = sorted({1, *range(2, size + 1, max(2, size // 5))})
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    with styled():
        bar = axes.figure.colorbar(mesh, ax=axes, shrink=0.9)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)
    axes.set_xlabel(f"largest off the diagonal: {found.off_diagonal:.3f}", color=MUTED)


def _eigenvalues(axes: Axes, found: Eigenfunctions) -> None:
    place = np.arange(1, len(found.eigenvalues) + 1)
    true: dict[str, Any] = {"color": INK, "linewidth": 1.1, "linestyle": (0, (4.0, 2.4)), "label": "true"}
    axes.plot(place, found.true_eigenvalues, **true)
    axes.plot(place, found.eigenvalues, label="learned", **(series_style("ours") | {"linestyle": ""}))
    if float(min(found.eigenvalues.min(), found.true_eigenvalues.min())) > 0:
        axes.set_yscale("log")
    ticks = [int(tick) for tick in place if tick == 1 or tick % 2 == 0]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    with styled():
        axes.legend(loc="lower left")
