from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from eigenmap.objectives.moments import (
    average,
    centre,
    gather,
    harmonic,
    join,
    l2_normalise,
    mean,
    scale_rows,
    squared_moments,
    standardise,
)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_one_process_joins_nothing() -> None:
    x = draw(3, 2)
    assert gather(x) is x
    assert average(x) is x


def test_l2_normalise_scales_to_unit_second_moment_and_moves_nothing() -> None:
    psi, psi_plus = draw(5, 3) + 4, draw(5, 3, seed=1) - 1
    a, b = l2_normalise(psi, psi_plus)
    torch.testing.assert_close(torch.cat([a, b]).square().mean(0), torch.ones(3, dtype=torch.float64))
    ratio = a / psi
    torch.testing.assert_close(ratio, ratio[:1].expand(5, 3))
    torch.testing.assert_close(b / psi_plus, ratio)


def test_standardise_gives_mean_zero_and_variance_one_over_both_views() -> None:
    both = torch.cat(standardise(draw(5, 3) * 7 + 4, draw(6, 3, seed=1)))
    torch.testing.assert_close(both.mean(0), torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(both.var(0, correction=0), torch.ones(3, dtype=torch.float64))


def test_gradient_flows_through_the_statistics() -> None:
    """A normalised feature is invariant to scale (and shift), so the gradient in these directions is zero."""
    psi, direction = draw(6, 3).requires_grad_(), draw(6, 3, seed=1)
    (gradient,) = torch.autograd.grad((l2_normalise(psi)[0] * direction).sum(), psi)
    torch.testing.assert_close((gradient * psi).sum(0), torch.zeros(3, dtype=torch.float64))
    (gradient,) = torch.autograd.grad((standardise(psi)[0] * direction).sum(), psi)
    torch.testing.assert_close(gradient.sum(0), torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close((gradient * psi).sum(0), torch.zeros(3, dtype=torch.float64))


def test_a_weight_of_two_is_a_row_twice() -> None:
    psi = draw(3, 2)
    weights = torch.tensor([2.0, 1.0, 1.0], dtype=torch.float64) * 3 / 4
    twice = psi[[0, 0, 1, 2]]
    torch.testing.assert_close(mean(psi, weights=weights), mean(twice))
    torch.testing.assert_close(centre(psi, weights=weights)[0], centre(twice)[0][1:])
    a, b = join(psi, psi + 1, weights, None), join(twice, twice + 1, None, None)
    torch.testing.assert_close(a.psi.T @ a.partner, b.psi.T @ b.partner)
    torch.testing.assert_close(a.pooled().T @ a.pooled(), b.pooled().T @ b.pooled())


def test_dead_features_and_rows_stay_finite() -> None:
    psi = torch.zeros(4, 2, requires_grad=True)
    for normalise in (l2_normalise, standardise):
        (out,) = normalise(psi)
        (gradient,) = torch.autograd.grad(out.sum(), psi)
        assert torch.isfinite(out).all() and torch.isfinite(gradient).all()
    for how in ("normalised", "clipped", "raw"):
        out = scale_rows(psi, how, 10.0)
        (gradient,) = torch.autograd.grad(out.sum(), psi)
        assert torch.isfinite(out).all() and torch.isfinite(gradient).all()


def test_gram_block_moments() -> None:
    psi, psi_plus, K = draw(3, 2), draw(4, 2, seed=1), draw(3, 4, seed=2)
    rows = join(psi, psi_plus, None, K)
    torch.testing.assert_close(rows.psi.T @ rows.partner, psi.T @ K @ psi_plus / 12)
    torch.testing.assert_close(rows.diagonal(), (psi.T @ K @ psi_plus / 12).diagonal())
    both = torch.cat([psi, psi_plus])
    torch.testing.assert_close(rows.pooled().T @ rows.pooled(), both.T @ both / 7)
    assert rows.collision == 0


def plain_squared_moments(a: Tensor, b: Tensor, earlier: Tensor, later: Tensor) -> Tensor:
    return ((a.T @ b).square() * earlier[:, None] * later).triu(1).sum()


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 6), k=st.integers(1, 9), block=st.integers(1, 10))
def test_squared_moments_by_blocks(n: int, k: int, block: int) -> None:
    a, b = draw(n, k).requires_grad_(), draw(n, k, seed=1).requires_grad_()
    earlier, later = draw(k, seed=2).abs(), draw(k, seed=3).abs()
    plain = plain_squared_moments(a, b, earlier, later)
    blocked = squared_moments(a, b, earlier, later, block=block)
    torch.testing.assert_close(blocked, plain)
    torch.testing.assert_close(torch.autograd.grad(3 * blocked, (a, b)), torch.autograd.grad(3 * plain, (a, b)))


def test_squared_moments_gradient_by_differences() -> None:
    a, b = draw(4, 5).requires_grad_(), draw(4, 5, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: squared_moments(x, y, block=2), (a, b))
    assert torch.autograd.gradcheck(lambda x: squared_moments(x, x, block=2), (a,))


@pytest.mark.parametrize("held", [0, 1])
def test_squared_moments_hold_what_is_detached(held: int) -> None:
    views = [draw(4, 5).requires_grad_(), draw(4, 5, seed=1).requires_grad_()]
    arguments = [view.detach() if v == held else view for v, view in enumerate(views)]
    one = torch.ones(5, dtype=torch.float64)
    found = torch.autograd.grad(squared_moments(*arguments), views, allow_unused=True)
    expected = torch.autograd.grad(plain_squared_moments(*arguments, one, one), views, allow_unused=True)
    assert found[held] is None and expected[held] is None
    torch.testing.assert_close(found[1 - held], expected[1 - held])


def test_harmonic_weights() -> None:
    w = harmonic(4, torch.zeros((), dtype=torch.float64))
    torch.testing.assert_close(w * 25 / 12, 1 / torch.arange(1, 5, dtype=torch.float64))
