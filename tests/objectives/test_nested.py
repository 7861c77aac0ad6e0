from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from eigenmap.objectives import NestedMoments, SpectralContrastive
from eigenmap.objectives.nested import nested_product

from .reference import KERNELS, assert_matches, example, expectation, normalised, normalised_rows, probabilities


def nested(
    psi: Tensor,
    psi_plus: Tensor,
    kernel: Tensor | None,
    rows: str = "normalised",
    scale: float = 10.0,
    unbiased: bool = False,
    centre: bool = True,
) -> Tensor:
    """Prefix by prefix: w_d times the contrastive loss of the first d features."""
    psi, psi_plus = normalised(psi, psi_plus, kernel, centre=centre, scale=False)
    z, z_plus = normalised_rows(psi, rows, scale), normalised_rows(psi_plus, rows, scale)
    k = psi.shape[1]
    R = expectation(z, z_plus, kernel)
    paired = kernel is None or kernel.ndim == 1
    p, p_plus = probabilities(len(z), kernel), probabilities(len(z_plus), kernel)
    loss = torch.zeros((), dtype=torch.float64)
    for d in range(1, k + 1):
        weight = 1 / d / sum(1 / e for e in range(1, k + 1))
        total, mass = torch.zeros((), dtype=torch.float64), 0.0
        for b in range(len(z)):
            for c in range(len(z_plus)):
                if not (paired and unbiased and b == c):
                    total = total + p[b] * p_plus[c] * (z[b, :d] @ z_plus[c, :d]) ** 2
                    mass += p[b] * p_plus[c]
        loss = loss + weight * (total / mass - 2 * sum(R[j][j] for j in range(d)))
    return loss


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rows", ["normalised", "clipped", "raw"])
@pytest.mark.parametrize("unbiased", [False, True])
def test_is_its_equation(kernel: str, rows: str, unbiased: bool) -> None:
    reference = functools.partial(nested, rows=rows, scale=7.0, unbiased=unbiased)
    assert_matches(NestedMoments(rows=rows, scale=7.0, unbiased=unbiased), reference, kernel)


@pytest.mark.parametrize("kernel", KERNELS)
def test_without_centring_it_is_its_equation(kernel: str) -> None:
    reference = functools.partial(nested, rows="raw", centre=False)
    assert_matches(NestedMoments(rows="raw", centre=False), reference, kernel)


def test_one_feature_is_the_spectral_contrastive_loss_of_centred_codes() -> None:
    psi, psi_plus, _ = example("pairs", k=1)
    m = torch.cat([psi, psi_plus]).mean()
    expected = SpectralContrastive(rows="raw")(psi - m, psi_plus - m)
    torch.testing.assert_close(NestedMoments(rows="raw", unbiased=True)(psi, psi_plus), expected)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 6), n_plus=st.integers(1, 6), k=st.integers(1, 9), block=st.integers(1, 10))
def test_blocks_do_not_matter(n: int, n_plus: int, k: int, block: int) -> None:
    generator = torch.Generator().manual_seed(n + 10 * k)
    a = torch.randn(n, k, generator=generator, dtype=torch.float64, requires_grad=True)
    b = torch.randn(n_plus, k, generator=generator, dtype=torch.float64, requires_grad=True)
    s = torch.rand(k, generator=generator, dtype=torch.float64).sort(descending=True).values
    j = torch.arange(k)
    plain = (s[torch.maximum(j[:, None], j)] * (a.T @ a) * (b.T @ b)).sum()
    blocked = nested_product(a, b, s, block=block)
    torch.testing.assert_close(blocked, plain)
    torch.testing.assert_close(torch.autograd.grad(blocked, (a, b)), torch.autograd.grad(plain, (a, b)))
