"""Rows of pictures are the items with the largest and smallest values of a feature."""

from __future__ import annotations

import numpy as np
import pytest

from eigenmap import Eigenmap, EigenmapError, fit_images
from eigenmap.data import ImageSet
from eigenmap.data.images import catalogue
from eigenmap.figures.excitation import MadeFeature, excited_by, exciting_figure, made_figure, make_exciting
from eigenmap.figures.style import png, svg


@pytest.fixture(scope="module")
def images() -> ImageSet:
    return catalogue.load("train").subset(range(100))


@pytest.fixture(scope="module")
def model(images: ImageSet) -> Eigenmap:
    return fit_images(images, 6, steps=3, batch_size=64, hidden=32, device="cpu", progress=False)


def test_items_have_the_extreme_values(model: Eigenmap, images: ImageSet) -> None:
    found = excited_by(model, images, features=8, top=4)
    values = model.encode(images.pixels, weighting="none", normalize=False)
    assert [feature.number for feature in found] == [1, 2, 3, 4, 5, 6]
    for j, feature in enumerate(found):
        order = np.argsort(-values[:, j])
        assert [hit.label for hit in feature.most] == [images.ids[row] for row in order[:4]]
        assert [hit.label for hit in feature.least] == [images.ids[row] for row in order[::-1][:4]]
        assert feature.eigenvalue == model.eigenvalues_[j]


def test_the_figure_holds_both_ends_of_every_feature(model: Eigenmap, images: ImageSet) -> None:
    found = excited_by(model, images, features=3, top=4)
    figure = exciting_figure(found)
    left, right = figure.axes
    assert (left.get_title("left"), right.get_title("left")) == ("largest values", "smallest values")
    for axes in (left, right):
        sheet = np.asarray(axes.get_images()[0].get_array())
        assert (sheet[..., 3] == 255).sum() == 3 * 4 * 28 * 28
    assert [text.get_text() for text in left.texts] == [
        text for feature in found for text in (str(feature.number), f"{feature.eigenvalue:.2f}")
    ]
    assert "largest values" in svg(figure) and len(png(figure, dpi=60)) > 3_000


def test_made_pictures_are_shown_with_their_values() -> None:
    picture = np.zeros((8, 8), np.uint8)
    figure = made_figure(
        [MadeFeature(1, (picture, picture + 9), (2.5, -1.25)), MadeFeature(2, (picture,) * 2, (1, -1))]
    )
    assert [axes.get_xlabel() for axes in figure.axes] == ["+2.50", "-1.25", "+1.00", "-1.00"]
    assert np.asarray(figure.axes[1].get_images()[0].get_array()).max() == 9
    assert len(svg(figure)) > 3_000


def test_both_ends_are_made_and_counted_as_one(model: Eigenmap) -> None:
    told: list[tuple[int, int]] = []
    made = make_exciting(model, features=2, steps=8, progress=lambda done, total: told.append((done, total)))
    assert told == [(step, 16) for step in range(1, 17)]
    assert all(feature.values[0] > feature.values[1] for feature in made)


def test_nothing_to_draw() -> None:
    with pytest.raises(EigenmapError, match="draw"):
        exciting_figure([])
    with pytest.raises(EigenmapError, match="draw"):
        made_figure([])
