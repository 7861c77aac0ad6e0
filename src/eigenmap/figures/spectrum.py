"""Spectrum figure: agreement of two views in each ordered feature, on pairs held out of training.

figure = spectrum_figure({"clean": model.eigenvalues_}, noise=model.alignment.noise)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from eigenmap.core.errors import EigenmapError
from eigenmap.figures.style import GRID, add_axes, add_legend, legend_label, new_figure, numbered_look, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Values = npt.NDArray[np.floating[Any]]


def spectrum_figure(spectra: Mapping[str, Values], noise: float = 0.0) -> Figure:
    """Draw eigenvalues in order; below the band of two standard errors, no agreement is detectable."""
    if not spectra or not all(len(values) for values in spectra.values()):
        raise EigenmapError("Nothing to draw: give at least one spectrum with a value.")
    figure = new_figure(9.4, 3.4)
    axes = add_axes(figure, xlabel="feature, most important first", ylabel="held-out eigenvalue")
    longest = max(map(len, spectra.values()))
    ticks = [2**power for power in range(longest.bit_length())]
    for number, (name, values) in enumerate(spectra.items()):
        marks = [tick - 1 for tick in ticks if tick <= len(values)]
        axes.plot(range(1, len(values) + 1), values, label=legend_label(name), markevery=marks, **numbered_look(number))
    if noise > 0:
        axes.axhspan(-2 * noise, 2 * noise, color=GRID, alpha=0.9, linewidth=0, zorder=1)
        write_text(axes, 1, 2.4 * noise, "noise: two standard errors of a feature without agreement", va="bottom")
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(min(-2.5 * noise, -0.02, *(float(values.min()) - 0.02 for values in spectra.values())), 1.02)
    if len(spectra) > 1:
        add_legend(figure, axes, columns=len(spectra))
    return figure
