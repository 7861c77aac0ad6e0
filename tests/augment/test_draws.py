from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch

from eigenmap.augment.draws import Draws, Steps, draw_views
from eigenmap.core.errors import EigenmapError
from eigenmap.relations import Augmentation, policy

COLOUR = (3, 32, 32)
COUNT = 20_000


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def share(condition: torch.Tensor) -> float:
    return condition.float().mean().item()


def test_neutral_settings_draw_neutral_rows() -> None:
    draws = draw_views(Augmentation(), 5, COLOUR, generator())
    assert torch.equal(draws.boxes, torch.tensor([0.5, 0.5, 1.0, 1.0]).repeat(5, 1))
    assert draws.steps == Steps("bicubic", 1.0, False, 0, None, False, False, False)
    for values, neutral in ((draws.degrees, 0), (draws.turns, 0), (draws.grey, 0), (draws.sigma, 0)):
        assert torch.equal(values, torch.full((5,), float(neutral)))
    assert (draws.threshold > 1).all()
    for position in range(3):
        assert all(torch.equal(v, torch.full((5,), n)) for v, n in zip(draws.blend(position), (1.0, 0, 0), strict=True))


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 30, 60), (3, 100, 10), (1, 1, 20_000)])
def test_boxes_lie_inside_the_image_and_have_the_area_and_ratio_asked_for(shape: tuple[int, int, int]) -> None:
    settings = Augmentation(scale=(0.2, 0.9), ratio=(0.5, 2.0), flip=0.5)
    y, x, h, w = draw_views(settings, COUNT, shape, generator()).boxes.double().unbind(1)
    w = w.abs()
    for centre, extent in ((y, h), (x, w)):
        assert (centre - extent / 2).min() > -1e-6
        assert (centre + extent / 2).max() < 1 + 1e-6
    ratio = w / h * shape[2] / shape[1]
    assert ratio.min() > 0.5 - 1e-4
    assert ratio.max() < 2 + 1e-4
    if shape[1] == shape[2]:
        assert (w * h).min() > 0.2 - 1e-4
        assert (w * h).max() < 0.9 + 1e-4


def test_boxes_are_drawn_as_the_definition_says() -> None:
    """The distribution against a loop of ten attempts, written out one image at a time."""
    settings = Augmentation(scale=(0.5, 1.0))
    random = torch.rand(4000, 10, 2, generator=generator(1), dtype=torch.float64).tolist()
    heights, widths = [], []
    for attempts in random:
        for u, v in attempts:
            area, ratio = 0.5 + 0.5 * u, math.exp(math.log(3 / 4) + v * math.log(16 / 9))
            w, h = math.sqrt(area * ratio), math.sqrt(area / ratio)
            if w <= 1 and h <= 1:
                break
        else:
            w, h = 1.0, 1.0
        heights.append(h)
        widths.append(w)
    boxes = draw_views(settings, COUNT, COLOUR, generator()).boxes
    quantiles = torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95])
    for found, expected in ((boxes[:, 2], heights), (boxes[:, 3], widths)):
        torch.testing.assert_close(
            found.quantile(quantiles), torch.tensor(expected).quantile(quantiles), rtol=0, atol=0.01
        )
    slack = 1 - boxes[:, 2]
    place = ((boxes[:, 0] - boxes[:, 2] / 2) / slack)[slack > 0.05]
    torch.testing.assert_close(place.quantile(quantiles), quantiles, rtol=0, atol=0.015)


def test_a_box_that_never_fits_becomes_the_largest_central_one() -> None:
    settings = Augmentation(scale=(1.0, 1.0), ratio=(0.5, 2.0))
    tall = draw_views(settings, 3, (1, 100, 10), generator()).boxes
    torch.testing.assert_close(tall, torch.tensor([0.5, 0.5, 0.2, 1.0]).repeat(3, 1))
    wide = draw_views(settings, 3, (1, 10, 100), generator()).boxes
    torch.testing.assert_close(wide, torch.tensor([0.5, 0.5, 1.0, 0.2]).repeat(3, 1))


def test_probabilities_and_ranges() -> None:
    settings = Augmentation(
        flip=0.3, rotation=20.0, jitter=0.7, hue=0.2, grey=0.25, blur=0.6, blur_sigma=(1.0, 3.0), solarise=0.15
    )
    draws = draw_views(settings, COUNT, COLOUR, generator())
    tolerance = 0.015
    assert share(draws.boxes[:, 3] < 0) == pytest.approx(0.3, abs=tolerance)
    assert share(draws.turns != 0) == pytest.approx(0.7, abs=tolerance)
    assert share(draws.grey == 1) == pytest.approx(0.25, abs=tolerance)
    assert share(draws.grey == 0) == pytest.approx(0.75, abs=tolerance)
    assert share(draws.sigma > 0) == pytest.approx(0.6, abs=tolerance)
    assert share(draws.threshold == 0.5) == pytest.approx(0.15, abs=tolerance)
    sigma = draws.sigma[draws.sigma > 0] * 224
    for values, low, high in (
        (draws.degrees, -20, 20),
        (draws.turns[draws.turns != 0], -0.2, 0.2),
        (sigma, 1, 3),
    ):
        torch.testing.assert_close(
            values.quantile(torch.tensor([0.0, 0.5, 1.0])),
            torch.tensor([low, (low + high) / 2, high]),
            rtol=0,
            atol=0.02 * (high - low),
        )


def test_colour_factors_have_the_range_of_their_own_operation() -> None:
    settings = Augmentation(jitter=0.8, brightness=0.4, contrast=0.1, saturation=1.5)
    draws = draw_views(settings, COUNT, COLOUR, generator())
    unchanged = torch.ones(COUNT, dtype=torch.bool)
    for grey, mean, low, high in ((0, 0, 0.6, 1.4), (0, 1, 0.9, 1.1), (1, 0, 0.0, 2.5)):
        factors = torch.zeros(COUNT)
        for position in range(3):
            factor, g, m = draws.blend(position)
            factors = torch.where((g == grey) & (m == mean), factor, factors)
        unchanged &= factors == 1
        changed = factors[factors != 1]
        assert changed.min().item() == pytest.approx(low, abs=0.01)
        assert changed.max().item() == pytest.approx(high, abs=0.01)
    assert share(unchanged) == pytest.approx(0.2, abs=0.015)


def test_every_order_of_the_four_colour_changes_is_equally_frequent() -> None:
    settings = Augmentation(jitter=1.0, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)
    shared = generator()
    orders: Counter[tuple[str, ...]] = Counter()
    for _ in range(400):
        draws = draw_views(settings, 30, COLOUR, shared)
        assert draws.steps.blends == 3
        assert draws.steps.hue_after is not None
        for row in range(30):
            kinds = [
                "saturation" if grey[row] else "contrast" if mean[row] else "brightness"
                for _, grey, mean in map(draws.blend, range(3))
            ]
            kinds.insert(draws.steps.hue_after, "hue")
            orders[tuple(kinds)] += 1
    assert len(orders) == 24
    assert all(abs(count / 12_000 - 1 / 24) < 0.012 for count in orders.values())


def test_images_of_one_channel_skip_what_needs_colour() -> None:
    draws = draw_views(policy("simclr")[0], 50, (1, 28, 28), generator())
    assert draws.steps.blends == 2
    assert draws.steps.hue_after is None
    assert not draws.steps.grey
    assert draws.steps.blur
    assert not draws.blend(0)[1].any()
    assert not draws.grey.any()


def test_what_cannot_happen_is_not_a_step() -> None:
    without_jitter = draw_views(Augmentation(brightness=0.4, hue=0.1), 5, COLOUR, generator())
    assert without_jitter.steps.blends == 0
    assert without_jitter.steps.hue_after is None
    assert draw_views(policy("cifar")[0], 5, COLOUR, generator()).steps == Steps(
        "bicubic",
        0.08,
        False,
        3,
        draw_views(policy("cifar")[0], 5, COLOUR, generator()).steps.hue_after,
        True,
        False,
        False,
    )


def test_samples_differ_and_the_seed_decides() -> None:
    settings = policy("barlow_twins")[1]
    first, again = (draw_views(settings, 64, COLOUR, generator(3)) for _ in range(2))
    assert torch.equal(first.table, again.table)
    assert first.steps == again.steps
    assert len(torch.unique(first.boxes, dim=0)) == 64
    assert not torch.equal(first.table, draw_views(settings, 64, COLOUR, generator(4)).table)


def test_slices_and_joins_keep_rows_and_unite_steps() -> None:
    first = draw_views(Augmentation(rotation=5.0, scale=(0.5, 1.0)), 6, COLOUR, generator())
    second = draw_views(policy("cifar")[1], 4, COLOUR, generator())
    joined = first[2:5].join(second)
    assert len(joined) == 7
    assert torch.equal(joined.table, torch.cat([first.table[2:5], second.table]))
    assert joined.steps == Steps("bicubic", 0.08, True, 3, second.steps.hue_after, True, False, True)
    moved = joined.to(torch.device("cpu"))
    assert isinstance(moved, Draws)
    assert torch.equal(moved.table, joined.table)


def test_views_of_different_interpolation_do_not_join() -> None:
    first = draw_views(Augmentation(), 2, COLOUR, generator())
    with pytest.raises(EigenmapError, match="interpolation"):
        first.join(draw_views(Augmentation(interpolation="bilinear"), 2, COLOUR, generator()))


@pytest.mark.parametrize(("height", "width"), [(30, 90), (80, 20), (40, 41)])
def test_crops_of_squeezed_pictures_are_those_of_the_pictures(height: int, width: int) -> None:
    """Boxes are shares of the sides, so that only the shape of the picture matters."""
    settings = policy("barlow_twins")[0]
    own = draw_views(settings, 50, (3, height, width), torch.Generator().manual_seed(0))
    shapes = np.full(50, width / height, np.float32)
    squeezed = draw_views(settings, 50, (3, 64, 64), torch.Generator().manual_seed(0), shapes)
    torch.testing.assert_close(squeezed.table, own.table, rtol=1e-5, atol=1e-6)


def test_each_picture_is_cropped_by_its_own_shape() -> None:
    settings = policy("simclr")[0]
    shapes = np.array([0.4, 1.0, 3.0], np.float32).repeat(200)
    boxes = draw_views(settings, 600, (3, 64, 64), torch.Generator().manual_seed(1), shapes).boxes.numpy()
    ratio = np.abs(boxes[:, 3]) * shapes / boxes[:, 2]  # width / height in pixels of the picture
    assert ratio.min() > 0.74 and ratio.max() < 1.34
    area = np.abs(boxes[:, 3]) * boxes[:, 2]
    assert area.min() > 0.07 and area.max() <= 1.0001
