"""Grids hold every picture, and right and wrong can be told apart without colour."""

from __future__ import annotations

import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.figures.gallery import LARGEST, Answers, FeatureRow, Hit, answer_grid, feature_grid, picture_of
from eigenmap.figures.style import png

GREY = np.arange(64, dtype=np.uint8).reshape(8, 8)
COLOUR = np.stack([GREY, GREY, GREY], axis=2)


def query(picture: np.ndarray) -> Answers:
    hits = [Hit(picture, "coat", True), Hit(picture, "shirt", False), Hit(picture, "coat", True)]
    return Answers(picture, "coat", {2: hits, 16: hits})


@pytest.mark.parametrize("picture", [GREY, COLOUR])
def test_every_picture_is_there(picture: np.ndarray) -> None:
    figure = answer_grid([query(picture), query(picture), query(picture)])
    assert len(figure.axes) == 3
    axes = figure.axes[0]
    assert axes.get_title("left") == "query: coat"
    (image,) = axes.get_images()
    sheet = np.asarray(image.get_array())
    assert (sheet[..., 3] == 255).sum() == (1 + 2 * 3) * 8 * 8
    assert (sheet[:8, :8, 0] == GREY).all() and (sheet[:8, 15:23, 2] == GREY).all()
    assert [text.get_text() for text in axes.texts] == ["2", "16"]
    assert len(png(figure, dpi=60)) > 3_000


def test_wrong_results_have_another_frame_and_a_mark() -> None:
    axes = answer_grid([query(GREY)]).axes[0]
    frames = [patch.get_linestyle() for patch in axes.patches]
    assert frames[0] == frames[2] == "-" and frames[1] != "-"
    assert len(axes.get_lines()) == 2 * 2  # a box and a cross for the one wrong result of each length


@pytest.mark.parametrize("queries", [[], [Answers(GREY, "coat", {})]])
def test_nothing_to_draw(queries: list[Answers]) -> None:
    with pytest.raises(EigenmapError, match="draw"):
        answer_grid(queries)


def test_where_nobody_knows_what_is_right_there_are_no_frames() -> None:
    axes = answer_grid([Answers(GREY, "a.png", {2: [Hit(GREY, "b.png"), Hit(GREY, "c.png")]})]).axes[0]
    assert not axes.patches and not axes.get_lines()


def test_features_stand_in_rows_with_a_remark() -> None:
    figure = feature_grid(
        [FeatureRow("1", "0.9", [[GREY, GREY], [GREY]]), FeatureRow("2", "0.8", [[GREY], [GREY]])], ["+", "-"]
    )
    left, right = figure.axes
    assert [text.get_text() for text in left.texts] == ["1", "0.9", "2", "0.8"] and not right.texts
    assert [(np.asarray(axes.get_images()[0].get_array())[..., 3] == 255).sum() // 64 for axes in figure.axes] == [3, 2]
    with pytest.raises(EigenmapError, match="draw"):
        feature_grid([FeatureRow("1", "", [[], []])], ["+", "-"])


def test_large_pictures_are_shrunk_and_small_ones_left_alone() -> None:
    large = np.random.default_rng(0).integers(0, 255, (3, 300, 300), dtype=np.uint8)
    assert picture_of(large).shape == (LARGEST, LARGEST, 3)
    assert picture_of(GREY[None]) is not None and (picture_of(GREY[None]) == GREY).all()
