"""Staged alignment against a slow reference in NumPy, and edge cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.spectrum import Alignment, Moments
from eigenmap.spectrum.staged import HEAD, staged_alignment

WIDTH, COMPONENTS = 9, 12
Array = NDArray[np.float64]


def views(n: int, seed: int = 0, width: int = WIDTH, components: int = COMPONENTS) -> tuple[Tensor, Tensor]:
    """Both outputs for two views of n items: five shared factors, noise, and a non-linear projector."""
    draw = np.random.default_rng(seed)
    mixing = np.random.default_rng(1).normal(size=(5, width))
    bend = np.random.default_rng(2).normal(size=(width, components))
    shared = draw.normal(size=(n, 5)) @ mixing

    def view() -> Tensor:
        encoder = shared + draw.normal(size=(n, width)) * np.linspace(0.2, 1.5, width) + 3
        return torch.from_numpy(np.hstack([encoder, np.tanh(encoder @ bend / 4)]))

    return view(), view()


def aligned(n: int = 400, width: int = WIDTH, **options: Any) -> Alignment:
    x, x_plus = views(n)
    held, held_plus = views(max(20, n // 2), seed=5)
    fit, held_out = Moments(x.shape[1]).update(x, x_plus), Moments(x.shape[1]).update(held, held_plus)
    return staged_alignment(fit, held_out, (held, held_plus), width=width, **options)


def covariances(x: Tensor, x_plus: Tensor, about: Array | None = None) -> tuple[Array, Array, Array]:
    first, second = x.numpy(), x_plus.numpy()
    mean = (first.mean(0) + second.mean(0)) / 2 if about is None else about
    first, second = first - mean, second - mean
    within = (first.T @ first + second.T @ second) / (2 * len(first))
    across = (first.T @ second + second.T @ first) / (2 * len(first))
    return mean, within, across


def stages(n: int = 400) -> tuple[Array, Array]:
    """Columns [head, tail] before they are ordered, from the definitions, one by one; and A[:, encoder]."""
    x, x_plus = views(n)
    _, C, A = covariances(x, x_plus)
    e, p = slice(0, WIDTH), slice(WIDTH, None)
    ridge = np.trace(C[p, p]) / COMPONENTS
    _, vectors = scipy.linalg.eigh(A[p, p], C[p, p] + ridge * np.eye(COMPONENTS))
    held = views(n // 2, seed=5)
    _, C_held, A_held = covariances(*held, about=covariances(x, x_plus)[0])
    vectors = vectors[:, ::-1]
    quotients = [(v @ A_held[p, p] @ v) / (v @ C_held[p, p] @ v) for v in vectors.T]
    leading = vectors[:, np.argsort(quotients)[::-1][:HEAD]]
    head = np.vstack([np.zeros((WIDTH, HEAD)), 2 * leading])
    # Residual of the encoder after regression on the head, by least squares on the pairs themselves.
    centred = np.vstack([x.numpy(), x_plus.numpy()]) - covariances(x, x_plus)[0]
    slopes = np.linalg.lstsq(centred @ head, centred[:, e], rcond=None)[0]
    rest = centred[:, e] - centred @ head @ slopes
    within = rest.T @ rest / len(rest)
    root = scipy.linalg.sqrtm(np.linalg.inv(within + np.trace(C[e, e]) / WIDTH * np.eye(WIDTH))).real
    tail = np.vstack([np.eye(WIDTH), np.zeros((COMPONENTS, WIDTH))]) @ root - head @ slopes @ root
    return np.hstack([head, tail]), A[:, e]


def test_full_codes_compare_as_the_definition_says() -> None:
    columns, _ = stages()
    found = aligned()
    assert found.head == HEAD and found.n_components == WIDTH + HEAD and found.t == 0
    # Ordering is a rotation, which does not change inner products of full codes.
    np.testing.assert_allclose(found.rotation @ found.rotation.T, columns @ columns.T, atol=1e-8)


def test_features_are_ordered_by_the_variance_they_share_with_the_encoder() -> None:
    columns, A = stages()
    expected = scipy.linalg.svdvals(columns.T @ A)
    shared = aligned().rotation.numpy().T @ A
    np.testing.assert_allclose(np.linalg.norm(shared, axis=1)[:WIDTH], expected, rtol=1e-6)
    gram = shared @ shared.T
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-8)


def test_features_may_be_ordered_by_the_variance_they_share_as_a_code() -> None:
    columns, _ = stages()
    _, _, A = covariances(*views(400))
    shared, vectors = scipy.linalg.eigh(columns.T @ A @ columns)
    expected = (columns @ vectors)[:, np.argsort(-np.abs(shared))]
    found = aligned(order="code").rotation.numpy()
    signs = np.sign((expected * found).sum(0))
    np.testing.assert_allclose(found, expected * signs, atol=1e-7)


def test_eigenvalues_are_those_of_held_out_pairs() -> None:
    found = aligned()
    x, x_plus = views(200, seed=5)
    codes, codes_plus = (found.apply(z, unit=False).numpy() for z in (x, x_plus))
    across = (codes * codes_plus).mean(0)
    within = (codes**2).mean(0) / 2 + (codes_plus**2).mean(0) / 2
    np.testing.assert_allclose(found.eigenvalues, across / within, atol=1e-10)
    np.testing.assert_allclose(found.power, within, rtol=1e-10)
    assert found.noise == pytest.approx(200**-0.5)


def test_without_a_projector_the_encoder_is_staged_alone() -> None:
    x, x_plus = (z[:, :WIDTH] for z in views(400))
    moments = Moments(WIDTH).update(x, x_plus)
    found = staged_alignment(moments, moments, (x, x_plus), width=WIDTH)
    _, C, _ = covariances(x, x_plus)
    assert found.head == 0 and found.n_components == WIDTH
    metric = np.linalg.inv(C + np.trace(C) / WIDTH * np.eye(WIDTH))
    np.testing.assert_allclose(found.rotation @ found.rotation.T, metric, atol=1e-10)


def test_a_prefix_is_the_beginning_of_the_whole() -> None:
    whole, cut = aligned(), aligned(n_components=4)
    assert cut.n_components == 4 == max(cut.recall)
    torch.testing.assert_close(cut.rotation, whole.rotation[:, :4])
    torch.testing.assert_close(cut.eigenvalues, whole.eigenvalues[:4])


@pytest.mark.parametrize("n", [3, 6])
def test_fewer_pairs_than_features(n: int) -> None:
    found = aligned(n)
    assert 1 <= found.n_components <= WIDTH + HEAD
    assert bool(torch.isfinite(found.rotation).all() and torch.isfinite(found.eigenvalues).all())


def test_a_head_longer_than_the_projector_takes_all_of_it() -> None:
    x, x_plus = (z[:, : WIDTH + 2] for z in views(300))
    moments = Moments(WIDTH + 2).update(x, x_plus)
    found = staged_alignment(moments, moments, (x, x_plus), width=WIDTH)
    assert found.head == 2 and found.n_components == WIDTH + 2


@pytest.mark.parametrize("rank", [1, 3])
def test_a_head_longer_than_the_rank_of_the_projector_has_that_rank(rank: int) -> None:
    copies = torch.randn(rank, COMPONENTS, generator=torch.Generator().manual_seed(0)).double()
    x, x_plus = (torch.cat([z[:, :WIDTH], z[:, WIDTH : WIDTH + rank] @ copies], dim=1) for z in views(300))
    moments = Moments(x.shape[1]).update(x, x_plus)
    found = staged_alignment(moments, moments, (x, x_plus), width=WIDTH)
    assert found.head == rank < HEAD and found.n_components == WIDTH + rank
    assert bool(torch.isfinite(found.rotation).all() and torch.isfinite(found.eigenvalues).all())


@pytest.mark.parametrize("constant", [slice(0, WIDTH), slice(WIDTH, None)], ids=["encoder", "projector"])
def test_an_output_that_is_constant_is_a_collapse(constant: slice) -> None:
    x, x_plus = views(100)
    x[:, constant] = x_plus[:, constant] = 1.0
    moments = Moments(x.shape[1]).update(x, x_plus)
    with pytest.raises(EigenmapError, match="constant"):
        staged_alignment(moments, moments, (x, x_plus), width=WIDTH)


def test_features_of_the_encoder_that_are_constant_are_left_out() -> None:
    x, x_plus = views(300)
    x[:, :4] = x_plus[:, :4] = 2.0
    moments = Moments(x.shape[1]).update(x, x_plus)
    found = staged_alignment(moments, moments, (x, x_plus), width=WIDTH)
    assert found.n_components == WIDTH - 4 + HEAD and bool((found.rotation[:4] == 0).all())


def test_the_projectors_scale_does_not_matter_to_the_tail() -> None:
    """Rescaling the outputs does not change the code, since ridges are relative."""
    x, x_plus = views(300)
    scale = torch.cat([torch.full((WIDTH,), 10.0), torch.full((COMPONENTS,), 0.1)]).double()
    codes = []
    for factor in (torch.ones_like(scale), scale):
        moments = Moments(x.shape[1]).update(x * factor, x_plus * factor)
        found = staged_alignment(moments, moments, (x * factor, x_plus * factor), width=WIDTH)
        codes.append(found.apply(x * factor))
    torch.testing.assert_close(codes[0] @ codes[0].T, codes[1] @ codes[1].T, atol=1e-8, rtol=0)
