"""Common style of all figures: colour-blind-safe colours, light axes, consistent file formats.

    figure = new_figure(6.4, 3.6)
    axes = add_axes(figure, xlabel="features", ylabel="mAP")
    axes.plot(x, y, **series_style("ours"))
    save(figure, Path("figures/curve"))          # curve.svg and curve.png
    inline(figure, "mAP against code length")    # for a page; colours follow its light or dark scheme

Colours are those of Okabe and Ito [1], and every series also has its own marker and dash pattern, so that no figure
depends on colour alone. Figures are made without pyplot, and matplotlib's settings, which belong to the process, are
changed by one thread at a time and restored, so that threads do not interfere.

[1] M. Okabe, K. Ito: Color universal design. 2008. https://jfly.uni-koeln.de/color/
"""

from __future__ import annotations

import html
import io
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_path, make_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec

INK, MUTED, GRID, PAPER = "#1b1f24", "#5b6370", "#dde1e6", "#ffffff"

OKABE_ITO = {
    "blue": "#0072b2",
    "vermillion": "#d55e00",
    "green": "#009e73",
    "purple": "#cc79a7",
    "sky": "#56b4e9",
    "orange": "#e69f00",
}

DARK = {
    INK: "#e8eaed",
    MUTED: "#a2abb7",
    GRID: "#363c45",
    PAPER: "#16191d",
    OKABE_ITO["blue"]: "#4aa8e0",
    OKABE_ITO["vermillion"]: "#f0853a",
    OKABE_ITO["green"]: "#2fc79a",
    OKABE_ITO["purple"]: "#dd9bc0",
    OKABE_ITO["sky"]: "#8fd0f5",
    OKABE_ITO["orange"]: "#f0b73a",
}
"""Dark-mode equivalent of each colour: the same hue, light enough to read."""


@dataclass(frozen=True)
class Look:
    """Appearance of one series; a larger `z` draws it above others."""

    color: str
    marker: str
    linestyle: str | tuple[int, tuple[float, ...]] = "-"
    linewidth: float = 1.6
    z: float = 3.0


LOOKS = {
    "ours": Look(OKABE_ITO["blue"], "o", linewidth=2.4, z=5.0),
    "random": Look(OKABE_ITO["vermillion"], "s", (0, (5.0, 1.6))),
    "encoder-pca": Look(OKABE_ITO["green"], "^", (0, (3.0, 1.2, 1.0, 1.2))),
    "pixel-pca": Look(OKABE_ITO["purple"], "D", (0, (1.2, 1.2))),
    "pixels": Look(MUTED, "", (0, (8.0, 3.0)), linewidth=1.2, z=2.0),
}
"""Series that recur in several figures, by name."""

_SPARE = (
    Look(OKABE_ITO["orange"], "v"),
    Look(OKABE_ITO["sky"], "P", (0, (6.0, 1.5, 1.5, 1.5))),
    Look(OKABE_ITO["blue"], "X", (0, (2.0, 2.0))),
)

_SETTINGS: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "svg.fonttype": "none",  # text stays text: searchable, scalable, accessible
    "svg.hashsalt": "eigenmap",  # equal figures give equal files
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.labelsize": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.markersize": 5,
}


_drawing = threading.RLock()


@contextmanager
def styled() -> Iterator[None]:
    """Apply the settings of all figures while drawing or saving."""
    import matplotlib

    with _drawing, matplotlib.rc_context(cast(Any, _SETTINGS)):  # matplotlib's type lists all 300 keys
        yield


def new_figure(width: float = 6.4, height: float = 3.6) -> Figure:
    """Return an empty figure of this size in inches, with a layout that prevents overlaps."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="none")


def add_axes(
    figure: Figure,
    position: tuple[int, int, int] | SubplotSpec = (1, 1, 1),
    *,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    share_y: Axes | None = None,
) -> Axes:
    """Add styled axes at (rows, columns, number) of the figure, or at a position of a grid."""
    with styled():
        place = position if isinstance(position, tuple) else (position,)
        axes = figure.add_subplot(*place, sharey=share_y, facecolor="none")
        axes.set_title(literal(title), pad=8)
        axes.set_xlabel(literal(xlabel))
        axes.set_ylabel(literal(ylabel))
        axes.tick_params(length=0)
    return axes


def add_legend(figure: Figure, axes: Axes, columns: int) -> None:
    """Add one legend for all axes, above the figure."""
    with styled():
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=columns, handlelength=3.2)


def write_text(axes: Axes, x: float, y: float, text: str, **options: Any) -> None:
    """Write a muted remark inside the axes."""
    with styled():
        axes.text(x, y, literal(text), **{"color": MUTED, "fontsize": 9, **options})


def literal(text: str) -> str:
    """Escape text for display: no formulas between dollar signs, no invalid bytes of a file name."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("$", r"\$")


def legend_label(name: str) -> str:
    """Return the label of a series; matplotlib would hide one that begins with an underscore."""
    return literal(f" {name}" if name.startswith("_") else name)


def series_style(name: str, number: int = 0) -> dict[str, Any]:
    """Return keyword arguments for `Axes.plot`; an unknown series gets one of the spare looks, by its number."""
    chosen = LOOKS.get(name, _SPARE[number % len(_SPARE)])
    return {
        "color": chosen.color,
        "marker": chosen.marker,
        "linestyle": chosen.linestyle,
        "linewidth": chosen.linewidth,
        "zorder": chosen.z,
        "markeredgecolor": PAPER,
        "markeredgewidth": 0.8,
    }


def numbered_look(number: int) -> dict[str, Any]:
    """Return keyword arguments for a series without a name, such as one of several runs of one method."""
    return series_style(numbered_key(number), number)


def numbered_key(number: int) -> str:
    """Return the name of a look by series number: seven distinct ones, then the spare ones repeat."""
    names = [name for name, each in LOOKS.items() if each.marker]
    return names[number] if number < len(names) else f"series {number}"


def svg(figure: Figure) -> str:
    """Render the figure as an SVG document."""
    return _render(figure, "svg", metadata={"Date": None, "Creator": None}).decode("utf-8")


def png(figure: Figure, dpi: int = 160) -> bytes:
    """Render the figure as a PNG on white."""
    return _render(figure, "png", dpi=dpi, facecolor=PAPER, metadata={"Software": None})


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write `stem`.svg and `stem`.png and return both paths."""
    files = [stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "png")]  # a stem may contain a dot: rbf-0.3
    try:
        make_folder(stem.parent)
        # On white: a viewer in dark mode would show dark text on a dark background.
        svg = _render(figure, "svg", facecolor=PAPER, metadata={"Date": None, "Creator": None})
        for file, content in zip(files, (svg, png(figure)), strict=True):
            with atomic_path(file) as partial:
                partial.write_bytes(content)
    except OSError as error:
        raise EigenmapError(f"The figure {stem} cannot be written: {error.strerror}.") from error
    return files


def inline(figure: Figure, label: str) -> str:
    """Render the figure as an <svg> element for a page that defines the variables of `css_variables`.

    `label` is read by screen readers. Ids get a prefix, since two figures on a page must not share them.
    """
    text = svg(figure)
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    prefix = "f" + re.sub(r"[^a-z0-9]+", "-", label.lower())[:40] + "-"
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'((?:xlink:)?href=")#', rf"\g<1>#{prefix}", text)
    text = re.sub(r"url\(#", f"url(#{prefix}", text)
    for color in DARK:
        text = text.replace(color, f"var({_variable(color)})")
    # Scale with the page; the view box preserves the proportions.
    head, rest = text.split(">", 1)
    head = re.sub(r'\s(?:width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{html.escape(label)}">{rest}'


def css_variables(dark: bool = False) -> str:
    """Return declarations of the colours used by `inline`."""
    return "".join(f"{_variable(color)}:{shade if dark else color};" for color, shade in DARK.items())


def _variable(color: str) -> str:
    return f"--fig-{color.removeprefix('#')}"


def _render(figure: Figure, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    with styled(), warnings.catch_warnings():
        # An SVG keeps text in any script; in a PNG, characters missing from the font become boxes.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        figure.savefig(buffer, format=kind, **options)
    return buffer.getvalue()
