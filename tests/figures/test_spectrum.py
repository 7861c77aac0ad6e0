"""The spectrum as it is, on a logarithmic axis, with the band of what is noise."""

from __future__ import annotations

import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.figures.spectrum import spectrum_figure
from eigenmap.figures.style import png, svg


def test_values_by_their_place() -> None:
    clean, posed = np.array([0.9, 0.5, 0.1, -0.1]), np.array([0.8, 0.3])
    figure = spectrum_figure({"clean": clean, "posed": posed}, noise=0.02)
    axes = figure.axes[0]
    first, second = axes.get_lines()
    assert list(first.get_xdata()) == [1, 2, 3, 4] and list(first.get_ydata()) == clean.tolist()
    assert list(second.get_ydata()) == posed.tolist()
    assert axes.get_ylim()[0] < -0.1
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "4"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["clean", "posed"]
    assert "standard error" in svg(figure)
    assert len(png(figure)) > 3_000


def test_one_spectrum_needs_no_legend_and_no_noise_no_band() -> None:
    figure = spectrum_figure({"only": np.array([0.9, 0.5])})
    assert not figure.legends
    assert "standard error" not in svg(figure)


@pytest.mark.parametrize("spectra", [{}, {"clean": np.array([])}])
def test_nothing_to_draw(spectra: dict[str, np.ndarray]) -> None:
    with pytest.raises(EigenmapError, match="draw"):
        spectrum_figure(spectra)
