"""Figures of pictures that excite the leading features: found in an image set, or synthesised.

found = excited_by(model, images)
save(exciting_figure(found), Path("figures/exciting"))
save(made_figure(make_exciting(model, steps=1000)), Path("figures/optimised"))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eigenmap.core.errors import EigenmapError
from eigenmap.data import ImageSet
from eigenmap.evaluation.excitation import STEPS, excite, extremes
from eigenmap.figures.gallery import FeatureRow, Hit, Picture, feature_grid, picture_of
from eigenmap.figures.style import MUTED, add_axes, new_figure
from eigenmap.model import Eigenmap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEATURES = 8
SAMPLES = 10


@dataclass(frozen=True)
class ExcitedFeature:
    """A feature (counted from 1), its eigenvalue, and the items with its largest and smallest values."""

    number: int
    eigenvalue: float
    most: Sequence[Hit]
    least: Sequence[Hit]


@dataclass(frozen=True)
class MadeFeature:
    """A feature, pictures synthesised for its largest and smallest value, and the values they reach."""

    number: int
    pictures: tuple[Picture, Picture]
    values: tuple[float, float]


def excited_by(model: Eigenmap, images: ImageSet, features: int = FEATURES, top: int = SAMPLES) -> list[ExcitedFeature]:
    """Find the images with the largest and smallest values of the leading features."""
    features = min(features, model.n_components)
    values = model.encode(images.pixels, features, weighting="none", normalize=False)
    found = extremes(values, top)

    def hits(rows: Sequence[int]) -> list[Hit]:
        return [Hit(picture_of(images.pixels[row].numpy()), images.ids[row]) for row in rows]

    return [
        ExcitedFeature(j + 1, float(model.eigenvalues_[j]), hits(found.most[j].tolist()), hits(found.least[j].tolist()))
        for j in range(features)
    ]


def make_exciting(
    model: Eigenmap,
    features: int = FEATURES,
    steps: int = STEPS,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> list[MadeFeature]:
    """Synthesise pictures from noise for the leading features; see `evaluation.excitation.excite`."""
    features = min(features, model.n_components)
    ends = []
    for number, sign in enumerate((1, -1)):
        tick = progress and _half(progress, number)
        ends.append(excite(model, range(features), sign=sign, steps=steps, seed=seed, progress=tick))
    most, least = ends
    return [
        MadeFeature(
            j + 1,
            (picture_of(most.pixels[j].numpy()), picture_of(least.pixels[j].numpy())),
            (float(most.values[j]), float(least.values[j])),
        )
        for j in range(features)
    ]


def exciting_figure(features: Sequence[ExcitedFeature]) -> Figure:
    """Draw one row per feature: items with the largest values, then those with the smallest."""
    rows = [
        FeatureRow(
            str(feature.number),
            f"{feature.eigenvalue:.2f}",
            [[hit.picture for hit in feature.most], [hit.picture for hit in feature.least]],
        )
        for feature in features
    ]
    return feature_grid(rows, ["largest values", "smallest values"])


def made_figure(features: Sequence[MadeFeature]) -> Figure:
    """Draw one column per feature: the picture for its largest value above the one for its smallest."""
    if not features:
        raise EigenmapError("Nothing to draw: give at least one feature with pictures.")
    figure = new_figure(1.15 * len(features) + 0.6, 2.9)
    for column, feature in enumerate(features):
        for row, end in enumerate(("largest", "smallest")):
            place = row * len(features) + column + 1
            axes = add_axes(figure, (2, len(features), place), title="" if row else str(feature.number))
            axes.imshow(feature.pictures[row], cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            axes.grid(False)
            axes.spines[:].set_visible(False)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_xlabel(f"{feature.values[row]:+.2f}", fontsize=8, color=MUTED)
            if column == 0:
                axes.set_ylabel(end)
    return figure


def _half(progress: Callable[[int, int], object], number: int) -> Callable[[int, int], object]:
    """Map the progress of the first or second half to the total progress."""
    return lambda done, total: progress(number * total + done, 2 * total)
