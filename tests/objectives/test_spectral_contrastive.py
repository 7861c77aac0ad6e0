from __future__ import annotations

import functools

import pytest
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import SpectralContrastive

from .reference import KERNELS, assert_matches, expectation, normalised_rows, probabilities


def spectral_contrastive(
    psi: Tensor, psi_plus: Tensor, kernel: Tensor | None, scale: float = 10.0, rows: str = "normalised"
) -> Tensor:
    z, z_plus = normalised_rows(psi, rows, scale), normalised_rows(psi_plus, rows, scale)
    k = psi.shape[1]
    R = expectation(z, z_plus, kernel)
    block = kernel is not None and kernel.ndim == 2
    p, p_plus = probabilities(len(z), kernel), probabilities(len(z_plus), kernel)
    total, mass = torch.zeros((), dtype=torch.float64), 0.0
    for b in range(len(z)):
        for c in range(len(z_plus)):
            if b != c or block:
                total = total + p[b] * p_plus[c] * sum(z[b, j] * z_plus[c, j] for j in range(k)) ** 2
                mass += p[b] * p_plus[c]
    return total / mass - 2 * sum(R[j][j] for j in range(k))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rows", ["normalised", "clipped", "raw"])
@pytest.mark.parametrize(("B", "k"), [(6, 3), (3, 6)], ids=["tall", "wide"])
def test_is_its_equation(kernel: str, rows: str, B: int, k: int) -> None:
    reference = functools.partial(spectral_contrastive, scale=7.0, rows=rows)
    assert_matches(SpectralContrastive(scale=7.0, rows=rows), reference, kernel, B=B, k=k)


def test_clipping_touches_long_rows_only() -> None:
    long, short = torch.full((4, 2), 5.0), torch.full((4, 2), 0.5)
    clipped, raw, normalised = (SpectralContrastive(1.0, rows) for rows in ("clipped", "raw", "normalised"))
    torch.testing.assert_close(clipped(long, long), normalised(long, long))
    torch.testing.assert_close(clipped(short, short), raw(short, short))


def test_bad_rows_are_named() -> None:
    with pytest.raises(EigenmapError, match=r"rows.*normalised, clipped, raw"):
        SpectralContrastive(rows="long")
