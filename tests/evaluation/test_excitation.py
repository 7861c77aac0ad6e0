"""Extremes against sorting by hand; made images against the feature they are made for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from eigenmap import Eigenmap, EigenmapError, fit_images
from eigenmap.data.images import catalogue
from eigenmap.evaluation.excitation import blurred, excite, extremes, ordered_features


@pytest.fixture(scope="module")
def model() -> Eigenmap:
    images = catalogue.load("train").subset(range(100))
    return fit_images(images, 8, steps=3, batch_size=64, hidden=32, device="cpu", progress=False)


@settings(max_examples=30, deadline=None)
@given(
    arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=st.integers(-3, 3).map(float)),
    st.integers(1, 5),
)
def test_extremes_are_the_ends_of_the_sorted_items(values: np.ndarray, top: int) -> None:
    found = extremes(values, top)
    for j, column in enumerate(values.T):
        by_value = sorted(range(len(column)), key=lambda row: (-column[row], row))
        assert found.most[j].tolist() == by_value[:top]
        assert found.least[j].tolist() == sorted(range(len(column)), key=lambda row: (column[row], row))[:top]


def test_no_items() -> None:
    with pytest.raises(EigenmapError, match="no items"):
        extremes(np.empty((0, 3)))


def test_features_are_those_of_encode(model: Eigenmap) -> None:
    pixels = catalogue.load("query").pixels[:3]
    codes = model.encode(pixels, weighting="none", normalize=False)
    found = ordered_features(model, pixels.float() / 255, [5, 0, 2])
    np.testing.assert_allclose(found.detach().numpy(), [codes[0, 5], codes[1, 0], codes[2, 2]], atol=1e-5)


def test_the_blur_is_a_gaussian_of_seven_pixels() -> None:
    spot = torch.zeros(1, 2, 15, 15, dtype=torch.float64)
    spot[0, 1, 7, 7] = 1
    found = blurred(spot, 2.0)
    place = np.arange(-3, 4)
    window = np.exp(-(place**2) / 8.0)
    window /= window.sum()
    expected = np.zeros((15, 15))
    expected[4:11, 4:11] = np.outer(window, window)
    np.testing.assert_allclose(found[0, 1].numpy(), expected, atol=1e-12)
    assert float(found[0, 0].abs().max()) == 0
    flat = torch.full((1, 1, 9, 9), 0.3, dtype=torch.float64)
    torch.testing.assert_close(blurred(flat, 4.0), flat)


def test_made_images_excite_their_feature_more_than_noise_and_than_photos(model: Eigenmap) -> None:
    told: list[tuple[int, int]] = []
    high = excite(model, [0, 3], steps=25, progress=lambda done, total: told.append((done, total)))
    low = excite(model, [0, 3], steps=25, sign=-1)
    first = excite(model, [0, 3], steps=1)
    assert (high.values > first.values).all() and (low.values < first.values).all()
    assert high.pixels.shape == (2, 1, 28, 28) and high.pixels.dtype == torch.uint8
    shown = model.encode(high.pixels, weighting="none", normalize=False)
    np.testing.assert_allclose(high.values.numpy(), [shown[0, 0], shown[1, 3]], atol=1e-5)
    assert told == [(step, 25) for step in range(1, 26)]


def test_an_image_depends_on_its_feature_and_the_seed_only(model: Eigenmap) -> None:
    together, alone = excite(model, [1, 4], steps=3), excite(model, [4], steps=3)
    assert (together.pixels[1].int() - alone.pixels[0].int()).abs().max() <= 1
    assert (excite(model, [4], steps=3, seed=1).pixels != alone.pixels).any()


def test_the_model_is_left_as_it_was(model: Eigenmap) -> None:
    before = {name: tensor.clone() for name, tensor in model.network.state_dict().items()}
    model.network.zero_grad(set_to_none=True)  # what training left
    free = [parameter.requires_grad for parameter in model.network.parameters()]
    excite(model, [0], steps=2)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.network.state_dict().items())
    assert [parameter.requires_grad for parameter in model.network.parameters()] == free
    assert all(parameter.grad is None for parameter in model.network.parameters())


@pytest.mark.parametrize(("features", "steps"), [([8], 5), ([-1], 5), ([0], 0)])
def test_what_cannot_be_is_refused(model: Eigenmap, features: list[int], steps: int) -> None:
    with pytest.raises(EigenmapError, match=r"(feature|steps).*not (8|-1|0)"):
        excite(model, features, steps=steps)
