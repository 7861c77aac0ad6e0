from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from eigenmap.core.batch import Batch
from eigenmap.core.errors import EigenmapError
from eigenmap.spectrum import unit_rms_rows
from eigenmap.training.config import TrainingConfig
from eigenmap.training.health import (
    PAIRS,
    CollapseError,
    DivergedError,
    effective_rank,
    lowest_rank,
    measure,
    principal_axes,
    rayleigh_quotients,
    require_features,
    require_finite,
)
from eigenmap.training.metrics import Record


class Identity(nn.Module):
    """Network with psi = x that counts its inputs and records its mode."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[int] = []
        self.modes: set[bool] = set()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.rows.append(len(x))
        self.modes.add(self.training)
        return x, x


@pytest.mark.parametrize(("n", "k"), [(300, 20), (30, 80)])
def test_effective_rank_equals_the_definition(n: int, k: int) -> None:
    generator = torch.Generator().manual_seed(0)
    codes = torch.randn(n, k, generator=generator) * torch.logspace(0, -2, k) + 3.0
    p = np.linalg.eigvalsh(np.cov(codes.double().numpy().T)).clip(1e-300)
    p /= p.sum()
    assert effective_rank(codes) == pytest.approx(math.exp(-(p * np.log(p)).sum()), rel=1e-9)


def test_effective_rank_of_known_cases() -> None:
    x = torch.randn(500, 1, generator=torch.Generator().manual_seed(0))
    assert effective_rank(torch.eye(4).repeat(100, 1)) == pytest.approx(3.0)  # the simplex: one direction is fixed
    assert effective_rank(x * torch.arange(1.0, 65.0) + 397.0) == pytest.approx(1.0, abs=1e-6)
    assert effective_rank(torch.zeros(10, 5)) == 0.0
    rounding = torch.full((500, 64), 397.0) * (
        1 + 1e-7 * torch.randn(500, 64, generator=torch.Generator().manual_seed(1))
    )
    assert rounding.std() > 0 and effective_rank(rounding) == 0.0  # a constant, up to rounding


def test_rayleigh_quotients_recover_planted_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    mu = torch.tensor([0.9, 0.5, 0.0, -0.4])
    shared, a, b = torch.randn(3, 200_000, 4, generator=generator)
    root = mu.abs().sqrt()
    x = root * shared + (1 - mu.abs()).sqrt() * a
    x_plus = mu.sign() * root * shared + (1 - mu.abs()).sqrt() * b
    x, x_plus = 5 * x + 2, 5 * x_plus + 2
    codes = [Batch(x[:50_000], x_plus[:50_000]), Batch(x[50_000:], x_plus[50_000:])]
    assert rayleigh_quotients(codes, mean=torch.full((4,), 2.0)) == pytest.approx(mu.tolist(), abs=0.01)


def test_rayleigh_quotients_with_weights_and_gram_blocks() -> None:
    x, x_plus = torch.randn(2, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x_plus[:, 2] = x[:, 2] = 1.0
    mean, weights = torch.zeros(3, dtype=torch.float64), torch.tensor([1.0, 0, 2, 0, 3, 0])
    variance = (x.square().sum(0) + x_plus.square().sum(0)) / 12
    weighted = rayleigh_quotients([Batch(x, x_plus, weights)], mean)
    shared, squares = ((weights[:, None] * each).sum(0) for each in (x * x_plus, (x.square() + x_plus.square()) / 2))
    assert weighted == pytest.approx((shared / squares).tolist())
    assert rayleigh_quotients([Batch(x, x, weights)], mean) == pytest.approx([1, 1, 1])  # equal views share everything
    block = torch.rand(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    gram = rayleigh_quotients([Batch(x, x_plus, block)], mean)
    expected = [float(x[:, j] @ block @ x_plus[:, j]) / 36 / float(variance[j]) for j in range(3)]
    assert gram == pytest.approx(expected)
    assert rayleigh_quotients([Batch(x, x_plus)], mean=torch.ones(3, dtype=torch.float64))[2] == 0.0  # constant


@pytest.mark.parametrize(("n", "k"), [(400, 6), (40, 90), (3, 20)])
def test_principal_axes_are_the_singular_vectors(n: int, k: int) -> None:
    x = torch.randn(n, k, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 3
    scales = 4.0 ** -torch.arange(k).double()
    rotation = torch.linalg.qr(torch.randn(k, k, dtype=torch.float64, generator=torch.Generator().manual_seed(1))).Q
    codes = (x * scales) @ rotation
    count = min(n - 1, k, 5)
    axes = principal_axes(codes, count)
    expected = torch.linalg.svd(codes - codes.mean(0), full_matrices=False).Vh[:count]
    torch.testing.assert_close((expected @ axes).abs(), torch.eye(count, dtype=torch.float64), atol=1e-6, rtol=0)


def test_the_spectrum_does_not_depend_on_the_basis_of_the_features() -> None:
    """An objective without an order finds a rotation of the features of one with an order."""
    generator = torch.Generator().manual_seed(0)
    mu = torch.tensor([0.9, 0.6, 0.3, 0.0])
    shared, a, b = torch.randn(3, 1000, 4, generator=generator)
    x, x_plus = (mu.sqrt() * shared + (1 - mu).sqrt() * own for own in (a, b))
    scale = torch.tensor([8.0, 4.0, 2.0, 1.0])
    rotation = torch.linalg.qr(torch.randn(4, 4, generator=generator)).Q
    plain = measure(Identity(), (x * scale, x_plus * scale)).eigenvalues
    rotated = measure(Identity(), (x * scale @ rotation, x_plus * scale @ rotation)).eigenvalues
    assert rotated == pytest.approx(plain, abs=1e-4)
    assert plain == sorted(plain, reverse=True) and plain[0] > 0.7 > 0.2 > plain[3] > -0.2


def test_codes_that_are_constant_have_no_spectrum() -> None:
    health = measure(Identity(), (torch.ones(50, 6), torch.ones(50, 6)))
    assert health.effective_rank == 0.0 and health.eigenvalues == [0.0] * 6


def test_measure_takes_pairs_or_batches_in_evaluation_mode_and_restores_it() -> None:
    x = torch.randn(600, 12, generator=torch.Generator().manual_seed(0))
    network = Identity().train()
    health = measure(network, (x, x))
    assert network.training and network.modes == {False} and network.rows == [256, 256, 88] * 2
    assert health.n_components == 12 and health.eigenvalues == pytest.approx([1.0] * 8)
    assert health.effective_rank == pytest.approx(effective_rank(unit_rms_rows(x)), rel=1e-6)
    halves = measure(network, lambda: [Batch(x[:300], x[:300]), Batch(x[300:], x[300:])])
    assert halves.effective_rank == pytest.approx(health.effective_rank)
    assert halves.eigenvalues == pytest.approx(health.eigenvalues)


def test_measure_stops_when_it_has_enough() -> None:
    network, x = Identity(), torch.randn(256, 4, generator=torch.Generator().manual_seed(0))

    def endless() -> Any:
        while True:
            yield Batch(x, x)

    measure(network, endless)
    assert sum(network.rows) == 2 * PAIRS


def test_measure_refuses_missing_pairs_and_infinite_codes() -> None:
    with pytest.raises(EigenmapError, match="no held-out pairs"):
        measure(Identity(), lambda: [])
    with pytest.raises(DivergedError, match="not finite"):
        measure(Identity(), (torch.full((4, 3), torch.nan), torch.zeros(4, 3)))


def history(*ranks: float, n_components: int = 128) -> list[Record]:
    return [
        Record(step=10 * (i + 1), loss=0.0, gradient_norm=466.0, effective_rank=rank, n_components=n_components)
        for i, rank in enumerate(ranks)
    ]


CONFIG = TrainingConfig(steps=1000, lr=0.3)


def test_three_low_ranks_in_a_row_are_a_collapse() -> None:
    require_features(history(1.0, 1.0), CONFIG)
    require_features(history(1.0, 1.0, 2.5, 1.0, 1.0), CONFIG)
    with pytest.raises(CollapseError, match=r"step 50 .*1\.00 of 128.*3 checks"):
        require_features(history(30.0, 9.0, 1.9, 1.4, 1.0), CONFIG)
    with pytest.raises(CollapseError, match=r"466.*lr=0\.1.*clip_norm=1\."):
        require_features(history(1.0, 1.0, 1.0), CONFIG)


def test_checks_during_warmup_and_records_without_a_check_do_not_count() -> None:
    require_features(history(1.0, 1.0, 1.0), TrainingConfig(steps=1000, warmup_steps=10))
    between = Record(step=15, loss=0.0, gradient_norm=1.0)
    first, *rest = history(1.0, 1.0, 1.0)
    with pytest.raises(CollapseError):
        require_features([first, between, *rest], CONFIG)


def test_the_limit_is_two_for_many_features_and_less_for_few() -> None:
    with pytest.raises(CollapseError, match=r"below 2"):
        require_features(history(1.9, 1.9, 1.9, n_components=8192), CONFIG)
    require_features(history(2.1, 2.1, 2.1, n_components=8192), CONFIG)
    require_features(history(1.2, 1.2, 1.2, n_components=2), CONFIG)
    require_features(history(1.0, 1.0, 1.0, n_components=1), CONFIG)
    for n_components in (1, 2, 128):
        with pytest.raises(CollapseError):
            require_features(history(0.0, 0.0, 0.0, n_components=n_components), CONFIG)
    limits = [lowest_rank(k) for k in range(1, 500)]
    assert limits == sorted(limits) and limits[0] == 1.0 and set(limits[20:]) == {2.0}


def test_what_is_not_finite_is_reported_with_two_settings_to_try() -> None:
    require_finite(Record(step=1, loss=1.0, gradient_norm=1.0), CONFIG)
    with pytest.raises(DivergedError, match=r"step 1.*nan.*lr=0\.03.*clip_norm=1\."):
        require_finite(Record(step=1, loss=float("nan"), gradient_norm=1.0), CONFIG)
    with pytest.raises(DivergedError, match=r"clip_norm=1\."):
        require_finite(Record(step=1, loss=math.nan, gradient_norm=1.0), TrainingConfig(steps=9, clip_norm=0.0))
    with pytest.raises(DivergedError, match=r"norm inf.*clip_norm=0\.5\."):
        require_finite(Record(step=1, loss=1.0, gradient_norm=math.inf), TrainingConfig(steps=9, clip_norm=5.0))
