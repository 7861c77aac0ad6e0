"""The Rayleigh-Ritz step against slow loops, scipy, and relations whose eigenfunctions are known."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.multiprocessing
from torch import Tensor
from torch.nn.functional import normalize

from eigenmap.core.errors import EigenmapError
from eigenmap.spectrum import (
    EXPONENTS,
    Alignment,
    Moments,
    agreement,
    align,
    best_alignment,
    captured,
    neighbour_agreement,
    own_order,
    unit_rms_rows,
)

KERNELS = ("pairs", "weights", "block", "sparse block")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=dtype)


def planted(n: int, mu: list[float] | Tensor, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Pairs of independent Gaussian features of unit variance; feature j correlates by mu_j across the pair."""
    mu = torch.as_tensor(mu, dtype=torch.float64)
    a, b = randn(2, n, len(mu), seed=seed)
    return a, mu * a + (1 - mu.square()).sqrt() * b


def moments(pairs: tuple[Tensor, Tensor], kernel: Tensor | None = None) -> Moments:
    return Moments(pairs[0].shape[1]).update(*pairs, kernel)


def assert_same(first: Moments, second: Moments) -> None:
    m = randn(first.n_features, seed=99)
    torch.testing.assert_close(first.mean(), second.mean(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(first.about(m), second.about(m), rtol=1e-12, atol=1e-12)
    assert first.noise() == pytest.approx(second.noise(), rel=1e-12)


# Moments


def batch(kind: str, n: int = 7, k: int = 3, seed: int = 0) -> tuple[Tensor, Tensor, Tensor | None]:
    """Batch whose two views have different means; Gram blocks are rectangular and not normalised."""
    n_plus = n + 2 if "block" in kind else n
    psi, psi_plus = 2 + randn(n, k, seed=seed), randn(n_plus, k, seed=seed + 1) - 1
    shape = {"pairs": None, "weights": (n,)}.get(kind, (n, n_plus))
    if shape is None:
        return psi, psi_plus, None
    kernel = torch.rand(shape, generator=generator(seed + 2), dtype=torch.float64)
    return psi, psi_plus, kernel.to_sparse() if kind == "sparse block" else kernel


def test_moments_of_some_features_are_a_part_of_those_of_all() -> None:
    psi, psi_plus = randn(50, 6, seed=1), randn(50, 6, seed=2)
    part, expected = Moments(6).update(psi, psi_plus).part(slice(2, 5)), Moments(3)
    expected.update(psi[:, 2:5], psi_plus[:, 2:5])
    m = expected.mean()
    torch.testing.assert_close(part.mean(), m)
    for found, wanted in zip(part.about(m), expected.about(m), strict=True):
        torch.testing.assert_close(found, wanted)
    assert part.noise() == expected.noise()


def test_rows_whose_squares_do_not_fit_float32_become_unit_rows() -> None:
    psi = randn(5, 8).float()
    torch.testing.assert_close(unit_rms_rows(psi * 1e30), unit_rms_rows(psi), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(unit_rms_rows(psi * 1e-30), unit_rms_rows(psi), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(unit_rms_rows(psi).square().sum(1), torch.full((5,), 8.0))
    assert bool((unit_rms_rows(0 * psi) == 0).all())


def looped(psi: Tensor, psi_plus: Tensor, kernel: Tensor | None, m: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """C and A of psi - m from the equations, one pair at a time."""
    x, y = (psi - m).numpy(), (psi_plus - m).numpy()
    k = x.shape[1]
    C, C_plus, A = np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k))
    if kernel is not None and kernel.dim() == 2:
        K = kernel.to_dense().numpy()
        for i in range(len(x)):
            C += np.outer(x[i], x[i]) / len(x)
            for j in range(len(y)):
                A += K[i, j] * np.outer(x[i], y[j]) / (len(x) * len(y))
        for j in range(len(y)):
            C_plus += np.outer(y[j], y[j]) / len(y)
    else:
        w = np.ones(len(x)) if kernel is None else kernel.numpy()
        for i in range(len(x)):
            C += w[i] * np.outer(x[i], x[i]) / w.sum()
            C_plus += w[i] * np.outer(y[i], y[i]) / w.sum()
            A += w[i] * np.outer(x[i], y[i]) / w.sum()
    return (C + C_plus) / 2, (A + A.T) / 2


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("centre", ["origin", "mean", "elsewhere"])
def test_moments_equal_a_loop_over_pairs(kind: str, centre: str) -> None:
    psi, psi_plus, kernel = batch(kind)
    found = moments((psi, psi_plus), kernel)
    m = {"origin": torch.zeros_like(psi[0]), "mean": found.mean(), "elsewhere": randn(3, seed=5)}[centre]
    C, A = found.about(m)
    expected_C, expected_A = looped(psi, psi_plus, kernel, m)
    np.testing.assert_allclose(C.numpy(), expected_C, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(A.numpy(), expected_A, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KERNELS)
def test_centring_the_sums_is_centring_the_features(kind: str) -> None:
    psi, psi_plus, kernel = batch(kind)
    found = moments((psi, psi_plus), kernel)
    m = found.mean()
    centred = moments((psi - m, psi_plus - m), kernel)
    torch.testing.assert_close(centred.mean(), torch.zeros_like(m), rtol=0, atol=1e-14)
    torch.testing.assert_close(found.about(m), centred.about(torch.zeros_like(m)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["pairs", "weights"])
def test_any_batching_and_any_order_of_merging_gives_the_same(kind: str) -> None:
    psi, psi_plus, kernel = batch(kind, n=23)
    whole = moments((psi, psi_plus), kernel)
    streamed, parts = Moments(3), []
    for rows in torch.randperm(23, generator=generator()).split([1, 9, 2, 11]):
        piece = psi[rows], psi_plus[rows], None if kernel is None else kernel[rows]
        streamed.update(*piece)
        parts.append(Moments(3).update(*piece))
    merged = Moments(3)
    for i in (2, 0, 3, 1):
        merged.merge(parts[i])
    assert_same(streamed, whole)
    assert_same(merged, whole)


def test_gram_blocks_average_in_any_order() -> None:
    blocks = [batch("block", n=5, seed=seed) for seed in (0, 10, 20)]
    m = randn(3, seed=99)
    merged = Moments(3)
    for block in reversed(blocks):
        merged.merge(Moments(3).update(*block))
    expected = np.mean([looped(*block, m) for block in blocks], axis=0)
    np.testing.assert_allclose(torch.stack(merged.about(m)).numpy(), expected, rtol=1e-12, atol=1e-12)


def test_sums_are_float64_and_carry_no_gradient() -> None:
    psi = (1000 + randn(5000, 2)).float().requires_grad_()
    C, _ = moments((psi, psi)).about(torch.full((2,), 1000.0, dtype=torch.float64))
    assert C.dtype == torch.float64
    assert not C.requires_grad
    expected = (psi.detach().double() - 1000).square().mean(0)
    torch.testing.assert_close(C.diagonal(), expected, rtol=1e-8, atol=0)


def test_noise_is_the_spread_of_a_zero_eigenvalue_whatever_the_scale_of_the_weights() -> None:
    assert moments(planted(400, [0.5])).noise() == pytest.approx(1 / 20)
    weights = torch.rand(400, generator=generator(), dtype=torch.float64)
    first, scaled = (moments(planted(400, [0.5]), c * weights).noise() for c in (1, 1e-3))
    assert first == pytest.approx(scaled)
    seen = [
        float(own_order(held, held, centre=False).eigenvalues[0])
        for seed in range(300)
        if (held := moments(planted(400, [0.0], seed), weights))
    ]
    assert np.std(seen) == pytest.approx(first, rel=0.15)


def test_reduce_alone_changes_nothing() -> None:
    psi, psi_plus, _ = batch("pairs")
    assert_same(moments((psi, psi_plus)).reduce(), moments((psi, psi_plus)))


def _process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=Path(folder, "store").as_uri(), rank=rank, world_size=2)
    reduced = {kind: vars(Moments(3).update(*batch(kind, n=4 + 3 * rank, seed=rank)).reduce()) for kind in KERNELS}
    torch.save(reduced, Path(folder, f"{rank}.pt"))
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_reduce_to_one(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_process, args=(str(tmp_path),), nprocs=2)
    for rank in (0, 1):
        reduced = torch.load(tmp_path / f"{rank}.pt")
        for kind in KERNELS:
            one = Moments(3).update(*batch(kind, n=4, seed=0)).update(*batch(kind, n=7, seed=1))
            torch.testing.assert_close(reduced[kind], vars(one), rtol=1e-14, atol=1e-14)


# Known relations


@dataclass
class States:
    """Relation of 8 states: joint distribution, eigenvalues, and eigenfunctions as columns."""

    joint: Tensor
    eigenvalues: Tensor
    functions: Tensor

    @property
    def marginal(self) -> Tensor:
        return self.joint.sum(1)

    def moments(self, psi: Tensor) -> Moments:
        """Exact moments of features, from their values on the states."""
        i, j = torch.cartesian_prod(torch.arange(8), torch.arange(8)).T
        return Moments(psi.shape[1]).update(psi[i], psi[j], self.joint.flatten())


@pytest.fixture(scope="module")
def states() -> States:
    """Two groups that mostly visit each other, so that half of the spectrum is negative."""
    bipartite = (
        torch.tensor([[0.1, 1.0], [1.0, 0.1]], dtype=torch.float64).repeat_interleave(4, 0).repeat_interleave(4, 1)
    )
    joint = bipartite * torch.rand(8, 8, generator=generator(3), dtype=torch.float64) ** 3
    joint = (joint + joint.T) / (2 * joint.sum())
    p = joint.sum(1)
    mu, vectors = np.linalg.eigh((joint / (p[:, None] * p).sqrt()).numpy())
    functions = torch.from_numpy(vectors[:, ::-1].copy()) / p.sqrt()[:, None]
    return States(joint, torch.from_numpy(mu[::-1].copy()), functions)


@pytest.mark.parametrize("centre", [True, False])
def test_align_finds_the_eigenfunctions_of_a_known_relation(states: States, centre: bool) -> None:
    psi = randn(8, 8, seed=1) + (3.0 if centre else 0.0)
    exact = states.moments(psi)
    alignment = align(exact, exact, centre=centre)
    trivial = 1 if centre else 0  # centring removes the constant, which has eigenvalue 1
    expected = states.eigenvalues[trivial:]
    assert (expected < -0.1).sum() >= 2
    torch.testing.assert_close(alignment.eigenvalues, expected, rtol=0, atol=1e-8)
    assert (alignment.eigenvalues.diff() <= 0).all()
    phi = alignment.apply(psi, t=0, unit=False)
    gram = phi.T @ (states.marginal[:, None] * phi)
    torch.testing.assert_close(gram, torch.eye(8 - trivial, dtype=torch.float64), rtol=0, atol=1e-8)
    overlap = phi.T @ (states.marginal[:, None] * states.functions[:, trivial:])
    torch.testing.assert_close(overlap.abs(), torch.eye(8 - trivial, dtype=torch.float64), rtol=0, atol=1e-7)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_align_equals_scipy(ridge: float) -> None:
    import scipy.linalg

    mix = randn(6, 6, seed=1)
    x, y = planted(500, [0.9, 0.7, 0.4, 0.1, -0.3, -0.6])
    sample = moments((x @ mix + 1, y @ mix + 1))
    alignment = align(sample, sample, ridge)
    C, A = (matrix.numpy() for matrix in sample.about(sample.mean()))
    mu, V = scipy.linalg.eigh(A, C + ridge * np.trace(C) / 6 * np.eye(6))
    found = alignment.rotation.numpy()
    # With a ridge, eigh returns other eigenvalues and maybe another order; the vectors are the same.
    quotients = np.diag(V.T @ A @ V) / np.diag(V.T @ C @ V)
    V, quotients = V[:, quotients.argsort()[::-1]], np.sort(quotients)[::-1]
    np.testing.assert_allclose(alignment.eigenvalues.numpy(), quotients, atol=1e-10)
    np.testing.assert_allclose(found * np.sign((found * V).sum(0)), V, rtol=1e-7, atol=1e-9)
    if ridge == 0:
        np.testing.assert_allclose(alignment.eigenvalues.numpy(), mu[::-1], atol=1e-10)


def test_an_infinite_ridge_leads_to_the_principal_components_of_a() -> None:
    mix = randn(5, 5, seed=2)
    x, y = planted(300, [0.8, 0.6, 0.4, 0.2, -0.5])
    sample = moments((x @ mix, y @ mix))
    _, A = sample.about(sample.mean())
    principal = torch.linalg.eigh(A).eigenvectors
    found = normalize(align(sample, sample, ridge=1e9).rotation, dim=0)
    matched = (found.T @ principal).abs()
    torch.testing.assert_close(matched.max(1).values, torch.ones(5, dtype=torch.float64), rtol=0, atol=1e-6)
    assert sorted(matched.argmax(1).tolist()) == [0, 1, 2, 3, 4]


# Degenerate features


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_repeated_and_constant_features_do_not_count(ridge: float, dtype: torch.dtype) -> None:
    def widened(z: Tensor) -> Tensor:
        constant = torch.full((len(z), 1), 5.3)
        return torch.cat([z, constant, z[:, :1], z[:, 1:2] - 3 * z[:, 2:3], 0 * constant], 1).to(dtype)

    pairs = [tuple(widened(z) for z in planted(3000, [0.9, 0.5, 0.2], seed)) for seed in (0, 1)]
    fit, held_out = moments(pairs[0]), moments(pairs[1])
    alignment = align(fit, held_out, ridge)
    assert alignment.n_components == 3
    assert alignment.eigenvalues.tolist() == pytest.approx([0.9, 0.5, 0.2], abs=0.05)
    assert alignment.rotation.isfinite().all()
    # In its own order a constant feature shares nothing, and repeating a feature gains nothing.
    own = own_order(fit, held_out)
    assert own.eigenvalues.tolist() == pytest.approx([0.9, 0.5, 0.2, 0, 0.9, 0.23, 0], abs=0.06)
    assert 0 < captured(own, held_out) <= captured(alignment, held_out) + 1e-6
    best = best_alignment(fit, held_out, (pairs[1][0][:200], pairs[1][1][:200]))
    assert best.apply(pairs[1][0][:50]).isfinite().all()


def test_without_a_ridge_the_units_of_features_do_not_matter() -> None:
    units = torch.tensor([1e6, 1.0, 1e-6], dtype=torch.float64)
    pairs = [planted(3000, [0.9, 0.5, 0.2], seed) for seed in (0, 1)]
    plain = align(*(moments(pair) for pair in pairs))
    made = align(*(moments((x * units, y * units)) for x, y in pairs))
    torch.testing.assert_close(made.eigenvalues, plain.eigenvalues, rtol=0, atol=1e-9)
    codes = plain.apply(pairs[1][0]), made.apply(pairs[1][0] * units)
    torch.testing.assert_close((codes[0] * codes[1]).sum(0).abs(), codes[0].square().sum(0), rtol=1e-7, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("jitter", [0.0, 1e-8])
def test_collapsed_features_are_an_error(dtype: torch.dtype, jitter: float) -> None:
    point = 10 * randn(1, 6)
    collapsed = moments(tuple((point + jitter * randn(777, 6, seed=s)).to(dtype) for s in (1, 2)))
    with pytest.raises(EigenmapError, match="constant, so"):
        align(collapsed, collapsed)
    with pytest.raises(EigenmapError, match="collapsed"):
        best_alignment(collapsed, collapsed, (point, point))


def test_features_that_are_not_finite_are_an_error() -> None:
    x, y = planted(50, [0.5, 0.4])
    good, broken = moments((x, y)), moments((x, y.log()))
    for fit, held_out in ((broken, good), (good, broken), (Moments(2), good), (good, Moments(2))):
        with pytest.raises(EigenmapError, match="finite"):
            align(fit, held_out)
        with pytest.raises(EigenmapError, match="finite"):
            best_alignment(fit, held_out, (x, y))


@pytest.mark.parametrize("ridge", [-1.0, float("nan"), "auto"])
def test_a_ridge_is_a_number_of_at_least_0(ridge: Any) -> None:
    sample = moments(planted(50, [0.5, 0.4]))
    with pytest.raises(EigenmapError, match=f"ridge .*at least 0.*{ridge}"):
        align(sample, sample, ridge)


# Honest eigenvalues


@dataclass
class Large:
    """k = 512 features, 5 of them shared, from 12,500 pairs each to fit and to judge: k/N = 0.04."""

    fit: Moments
    held_out: Moments
    mu: Tensor
    pairs: tuple[Tensor, Tensor]


@pytest.fixture(scope="module")
def large() -> Large:
    mu = torch.zeros(512, dtype=torch.float64)
    mu[:5] = torch.tensor([0.9, 0.6, 0.4, 0.2, 0.1])
    pairs = planted(12_500, mu, seed=1)
    return Large(moments(planted(12_500, mu, seed=0)), moments(pairs), mu, (pairs[0][:400], pairs[1][:400]))


def quotients(rotation: Tensor, C: Tensor, A: Tensor) -> Tensor:
    return (rotation * (A @ rotation)).sum(0) / (rotation * (C @ rotation)).sum(0)


@pytest.mark.slow
def test_eigenvalues_of_a_planted_spectrum_are_honest(large: Large) -> None:
    alignment = align(large.fit, large.held_out)
    V, reported = alignment.rotation, alignment.eigenvalues
    # In-sample Ritz values are biased: most of their sum is noise.
    in_sample = quotients(V, *large.fit.about(large.fit.mean())).sort(descending=True).values
    assert in_sample[5:30].min() > 0.2
    assert in_sample.clamp(min=0).sum() > 30
    # The reported values are correct for the features found...
    truth = quotients(V, torch.eye(512, dtype=torch.float64), large.mu.diag())
    assert (reported - truth).abs().max() < 0.03
    assert reported.clamp(min=0).sum() == pytest.approx(float(large.mu.sum()), abs=0.8)
    assert (reported.diff() <= 0).all()
    # ... and near the planted values as far as 12,500 pairs determine the features. Those below sqrt(k / 2N) = 0.14
    # leave no trace in the leading Ritz vectors, and 0.2 half of one: no estimate from these pairs could find them.
    assert reported[:2].tolist() == pytest.approx([0.9, 0.6], abs=0.05)
    assert reported[2:4].tolist() == pytest.approx([0.35, 0.09], abs=0.05)
    assert (reported[:4] <= large.mu[:4] + 0.03).all()
    # Every mode that is truly zero is reported below 0.03.
    assert (truth[4:] < 0.03).all()
    assert (reported[4:] < 0.03).all()
    assert alignment.suggest_dim(spectrum=0.95) <= 5


def test_few_held_out_pairs_do_not_make_zeros_look_real(large: Large) -> None:
    """If zeros were sorted by value, the largest of 507, measured on 2,000 pairs, would be reported as 0.07."""
    few = moments(planted(2000, large.mu, seed=2))
    for alignment in (align(large.fit, few), own_order(large.fit, few)):
        raw = quotients(alignment.rotation, *few.about(alignment.mean))
        assert raw[5:].max() > 0.05
        assert alignment.eigenvalues[5:].max() < 0.03
        assert alignment.eigenvalues.sum() == pytest.approx(float(raw.sum()), abs=1e-9)


def test_own_order_is_kept_where_rotating_only_adds_noise(large: Large) -> None:
    best = best_alignment(large.fit, large.held_out, large.pairs, ridges=(0.0, 1.0))
    assert best.own_order
    assert best.quality > captured(align(large.fit, large.held_out), large.held_out) + 0.01
    torch.testing.assert_close(best.rotation, torch.eye(512, dtype=torch.float64))
    torch.testing.assert_close(best.eigenvalues[:5], large.mu[:5], rtol=0, atol=0.05)
    assert best.eigenvalues[5:].max() < 0.03


def test_held_out_values_decide_the_order_of_what_stands_out() -> None:
    fit, held_out = moments(planted(5000, [0.8, 0.4, -0.3], 0)), moments(planted(5000, [0.4, 0.8, -0.3], 1))
    alignment = align(fit, held_out)
    assert alignment.eigenvalues.tolist() == pytest.approx([0.8, 0.4, -0.3], abs=0.05)
    assert alignment.rotation.abs().argmax(0).tolist() == [1, 0, 2]


def test_what_may_be_zero_stays_in_the_order_of_the_fit() -> None:
    mu = [0.8, 0.15, 0.1, 0.05, 0.0, -0.8]
    fit = moments(planted(100_000, mu))
    for seed in range(5):
        alignment = align(fit, moments(planted(100, mu, seed=1 + seed)))
        assert alignment.rotation.abs().argmax(0).tolist() == [0, 1, 2, 3, 4, 5]
        assert (alignment.eigenvalues.diff() <= 0).all()


def test_mean_and_rotation_come_from_the_fit_alone() -> None:
    fit = moments(planted(4000, [0.9, 0.5, 0.1]))
    first, second = (align(fit, moments(planted(4000, [0.9, 0.5, 0.1], seed))) for seed in (1, 2))
    torch.testing.assert_close(first.mean, second.mean, rtol=0, atol=0)
    torch.testing.assert_close(first.rotation, second.rotation, rtol=0, atol=0)
    assert not torch.equal(first.eigenvalues, second.eigenvalues)


def test_equal_runs_give_equal_signs() -> None:
    x, y = planted(2000, torch.linspace(0.95, 0.1, 12))
    mix = randn(12, 12, seed=3)
    once = align(moments((x @ mix, y @ mix)), moments((x @ mix, y @ mix)))
    shuffled, shuffled_plus = x.flip(0) @ mix, y.flip(0) @ mix
    again = align(moments((shuffled, shuffled_plus)), moments((shuffled, shuffled_plus)))
    torch.testing.assert_close(once.rotation, again.rotation, rtol=1e-8, atol=1e-10)
    largest = once.rotation.gather(0, once.rotation.abs().argmax(0, keepdim=True))
    assert (largest > 0).all()


# Choosing between alignments


def test_the_order_of_exact_eigenfunctions_is_kept_and_any_other_replaced(states: States) -> None:
    functions = states.functions[:, 1:]
    repeated = functions.repeat(30, 1)  # enough rows for neighbours
    exact = states.moments(functions)
    assert best_alignment(exact, exact, (repeated, repeated)).own_order
    rotated = functions @ torch.linalg.qr(randn(7, 7, seed=5)).Q
    exact = states.moments(rotated)
    best = best_alignment(exact, exact, (repeated, repeated))
    assert not best.own_order
    torch.testing.assert_close(best.eigenvalues, states.eigenvalues[1:], rtol=0, atol=1e-8)


@pytest.mark.parametrize("k", [2, 6])
def test_the_order_of_eigenfunctions_the_wrong_way_round_is_replaced(k: int) -> None:
    mu = torch.linspace(0.2, 0.9, k)
    fit, held = planted(4000, mu), planted(2000, mu, seed=1)
    best = best_alignment(moments(fit), moments(held), (held[0][:200], held[1][:200]))
    assert not best.own_order
    torch.testing.assert_close(best.eigenvalues, mu.double().flip(0), rtol=0, atol=0.06)


def test_captured_is_the_mean_eigenvalue_of_the_prefixes() -> None:
    mu = [0.9, 0.7, 0.5, 0.3]
    sample = moments(planted(50_000, mu))
    expected = np.mean([np.mean(mu[:d]) for d in (1, 2, 4)])
    assert captured(own_order(sample, sample), sample) == pytest.approx(expected, abs=0.01)
    x, y = planted(50_000, mu)
    scale = torch.tensor([1e-3, 7.0, 1.0, 50.0], dtype=torch.float64)
    scaled = moments((x * scale + 1, y * scale + 1))
    assert captured(own_order(scaled, scaled), scaled) == pytest.approx(
        captured(own_order(sample, sample), sample), abs=1e-6
    )


def test_candidates_are_judged_at_the_lengths_that_will_be_used() -> None:
    """Four ordered features, then eight mixed ones: a model of four keeps its own order, a longer one does not."""
    mu = [0.9, 0.8, 0.7, 0.6, *(0.5 - 0.06 * j for j in range(8))]
    mix = torch.block_diag(torch.eye(4, dtype=torch.float64), torch.linalg.qr(randn(8, 8, seed=1)).Q)
    (x, y), (x_held, y_held) = planted(400, mu, 0), planted(20_000, mu, 1)
    fit, held_out = moments((x @ mix, y @ mix)), moments((x_held @ mix, y_held @ mix))
    pairs = (x_held[:200] @ mix, y_held[:200] @ mix)
    short = best_alignment(fit, held_out, pairs, n_components=4)
    assert short.own_order
    assert short.n_components == 4
    assert short.recall[4] == 1.0


def test_candidates_of_different_rank_are_judged_at_the_same_lengths() -> None:
    """Four ordered features, repeated: an alignment has no fifth, which must not count against their order."""
    fit, held = (
        tuple(torch.cat([z, z], 1) for z in planted(n, [0.9, 0.6, 0.4, 0.2], seed)) for n, seed in ((200, 0), (5000, 1))
    )
    assert align(moments(fit), moments(held)).n_components == 4
    assert best_alignment(moments(fit), moments(held), (held[0][:200], held[1][:200])).own_order


def noisy_tail(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Six shared features, mixed with 58 that pairs hardly share."""
    mu = torch.cat([torch.linspace(0.97, 0.9, 6), torch.linspace(0.25, 0.05, 58)]).double()
    x, y = planted(n, mu, seed)
    mix = torch.linalg.qr(randn(64, 64, seed=7)).Q
    return x @ mix, y @ mix


def test_what_is_kept_of_the_choice_is_about_codes_as_they_are_made() -> None:
    fit, held = noisy_tail(20_000, 0), noisy_tail(600, 1)
    best = best_alignment(moments(fit), moments(held), held)
    for t, found in best.agreement.items():
        cuts = [neighbour_agreement(*(best.apply(psi, d, t) for psi in held)) for d in (8, 16, 32, 64)]
        assert found == pytest.approx(sum(cuts) / 4, abs=1e-9), t
    for d, share in best.recall.items():
        full, cut = (
            (best.apply(held[0], dim) @ best.apply(held[1], dim).T).topk(10, dim=1).indices.tolist() for dim in (64, d)
        )
        assert share == pytest.approx(sum(len({*a} & {*b}) for a, b in zip(full, cut, strict=True)) / 6000, abs=1e-9)


def test_the_exponent_keeps_long_codes_as_good_as_short_ones() -> None:
    fit, held = noisy_tail(20_000, 0), noisy_tail(3000, 1)
    best = best_alignment(moments(fit), moments(held), (held[0][:600], held[1][:600]))
    assert best.t > 0
    fresh = noisy_tail(600, 2)

    def agreement(dim: int, t: float) -> float:
        return neighbour_agreement(*(best.apply(psi, dim, t) for psi in fresh))

    assert agreement(64, best.t) > agreement(6, best.t) - 0.01
    assert agreement(64, 0.0) < agreement(6, 0.0) - 0.1
    assert best.agreement[best.t] == max(best.agreement.values()) > 0
    # The recall curve rises to 1, except for noise.
    lengths, shares = zip(*sorted(best.recall.items()), strict=True)
    assert lengths[0] == 1
    assert lengths[-1] == best.n_components == 64
    assert shares[-1] == 1.0
    assert np.diff(shares).min() > -0.02
    assert best.suggest_dim(recall=0.9) < 64
    assert best.suggest_dim(recall=1.0) <= 64


def test_an_exponent_that_leaves_one_feature_is_not_mistaken_for_agreement() -> None:
    """A large t leaves only the first feature: codes are +-1, and all neighbours are ties."""
    fit, held = planted(4000, [0.9, 0.5, 0.3, 0.1], 0), planted(1000, [0.9, 0.5, 0.3, 0.1], 1)
    best = best_alignment(moments(fit), moments(held), tuple(psi.float() for psi in held))
    assert 0 < best.t < 16
    code = torch.ones(300, 1)
    assert neighbour_agreement(code, code) < 0.1
    assert neighbour_agreement(0 * code, 0 * code) < 0.1


def test_neighbour_agreement_equals_a_loop() -> None:
    code, code_plus = (normalize(z, dim=1) for z in planted(100, [0.9, 0.8, 0.7]))
    total = 0.0
    for i in range(100):
        others = [j for j in range(100) if j != i]
        lists = [sorted(others, key=lambda j, q=q: -float(q @ code_plus[j]))[:10] for q in (code[i], code_plus[i])]
        total += len(set(lists[0]) & set(lists[1])) / 10
    assert neighbour_agreement(code, code_plus) == pytest.approx(total / 100)
    assert neighbour_agreement(code, code) == 1.0
    assert neighbour_agreement(code[:2], code_plus[:2]) == 1.0  # one other item, which is the neighbour of both


# Codes


@pytest.fixture
def alignment() -> Alignment:
    mu = torch.tensor([0.8, 0.4, 0.2, 0.1, -0.3], dtype=torch.float64)
    return Alignment(randn(6, seed=1), randn(6, 5, seed=2), mu, torch.ones_like(mu), t=1.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_cut_code_is_the_normalised_beginning_of_the_whole(alignment: Alignment, dtype: torch.dtype) -> None:
    psi = randn(20, 6, seed=3).to(dtype)
    for t in (None, 0.0, 3.0):
        whole = alignment.apply(psi, t=t, unit=False)
        assert whole.dtype == dtype
        assert whole.shape == (20, 5)
        for dim in range(1, 6):
            cut = alignment.apply(psi, dim, t)
            assert cut.dtype == dtype
            torch.testing.assert_close(cut, normalize(whole[:, :dim], dim=1))
            torch.testing.assert_close(cut.norm(dim=1), torch.ones(20, dtype=dtype))
    torch.testing.assert_close(alignment.apply(psi), alignment.apply(psi, 5, 1.0))


@pytest.mark.parametrize("dim", [0, -1, 6, 2.0, "4"])
def test_a_cut_that_cannot_be_made_is_refused(alignment: Alignment, dim: Any) -> None:
    """Of old, -1 left out the last feature, and a length beyond the last one was the whole code."""
    with pytest.raises(EigenmapError, match=rf"dim .*1 to 5.*{dim}"):
        alignment.apply(randn(3, 6), dim)


def test_features_are_weighted_by_powers_of_their_eigenvalues(alignment: Alignment) -> None:
    psi = randn(20, 6, seed=3)
    plain = alignment.apply(psi, t=0, unit=False)
    torch.testing.assert_close(plain, (psi - alignment.mean) @ alignment.rotation)
    weighted = alignment.apply(psi, t=2, unit=False)
    expected = torch.tensor([1.0, 1 / 4, 1 / 16, 1 / 64, 0.0], dtype=torch.float64)
    torch.testing.assert_close(weighted, plain * expected)


def test_large_exponents_of_small_eigenvalues_fit_into_float32(alignment: Alignment) -> None:
    small = Alignment(alignment.mean, alignment.rotation, 0.1 * alignment.eigenvalues, alignment.power)
    codes = small.apply(randn(20, 6, seed=3, dtype=torch.float32), t=max(EXPONENTS))
    torch.testing.assert_close(codes.norm(dim=1), torch.ones(20))


def test_without_positive_eigenvalues_there_are_no_weights_but_no_undefined_ones() -> None:
    hopeless = Alignment(torch.zeros(2), torch.eye(2), torch.tensor([0.0, -0.5]), torch.ones(2))
    assert hopeless.weights(0).tolist() == [1, 1]
    assert hopeless.weights(2).tolist() == [0, 0]
    assert hopeless.apply(torch.ones(3, 2), t=2).isfinite().all()


def test_cut_and_to_keep_the_rest(alignment: Alignment) -> None:
    psi = randn(20, 6, seed=3)
    short = alignment.cut(2)
    assert short.n_components == 2
    torch.testing.assert_close(short.apply(psi), alignment.apply(psi, 2))
    assert alignment.cut(None) is alignment.cut(9) is alignment
    assert alignment.to("cpu") == alignment
    assert alignment.to("meta").rotation.is_meta
    measured = replace(alignment, recall={1: 0.5, 5: 1.0})
    assert measured.cut(2).recall == {}  # neighbours of five features do not apply to a code of two


# Suggested lengths


@pytest.mark.parametrize(
    ("changes", "share", "expected"),
    [
        # With t = 1 and unit variances the features have 0.64, 0.16, 0.04, 0.01 and 0 of 0.85.
        ({}, 0.75, 1),
        ({}, 0.76, 2),
        ({}, 0.95, 3),
        ({}, 1, 4),
        ({"t": 0.0}, 0.5, 2),
        ({"t": 0.0}, 0.51, 3),
        ({"t": 8.0}, 0.99, 1),
        ({"noise": 0.06}, 1.0, 3),  # the fourth eigenvalue is within two standard errors of zero
        ({"noise": 0.5}, 0.5, 5),  # nothing exceeds the noise, so nothing may be left out
        ({"power": torch.tensor([1.0, 1.0, 1.0, 1000.0, 1.0])}, 0.5, 4),
    ],
)
def test_suggest_dim_by_spectrum(alignment: Alignment, changes: dict[str, Any], share: float, expected: int) -> None:
    changed = replace(alignment, **changes)
    assert changed.suggest_dim(spectrum=share) == expected


def test_suggest_dim_by_recall(alignment: Alignment) -> None:
    measured = replace(alignment, recall={1: 0.3, 2: 0.6, 3: 0.9, 4: 0.96, 5: 1.0})
    assert [measured.suggest_dim(recall=share) for share in (0.3, 0.31, 0.9, 0.95, 1.0)] == [1, 2, 3, 4, 5]
    with pytest.raises(EigenmapError, match="recall"):
        alignment.suggest_dim(recall=0.9)


@pytest.mark.parametrize("share", [0, -0.1, 1.01, 95, math.nan, "0.9"])
def test_suggest_dim_refuses_invalid_shares(alignment: Alignment, share: Any) -> None:
    for ask in ({"spectrum": share}, {"recall": share}):
        with pytest.raises(EigenmapError, match=r"in \(0, 1\]"):
            alignment.suggest_dim(**ask)


@pytest.mark.parametrize("asked", [{}, {"spectrum": 0.9, "recall": 0.9}])
def test_suggest_dim_takes_exactly_one_share(alignment: Alignment, asked: dict[str, float]) -> None:
    with pytest.raises(EigenmapError, match="exactly one"):
        alignment.suggest_dim(**asked)


@pytest.mark.slow
def test_neighbours_ignore_what_only_a_few_items_share() -> None:
    """Eight features of all items, and eight weak but noiseless ones that are non-zero for one item in a hundred."""
    generator = torch.Generator().manual_seed(0)

    def pairs(n: int) -> tuple[Tensor, Tensor]:
        shared = torch.randn(n, 8, generator=generator)
        broad = [shared + 0.6 * torch.randn(n, 8, generator=generator) for _ in range(2)]
        rare = 0.5 * torch.randn(n, 8, generator=generator) * (torch.rand(n, 8, generator=generator) < 0.01)
        return torch.cat([broad[0], rare], 1), torch.cat([broad[1], rare], 1)

    fit, held_out = Moments(16), Moments(16)
    fit.update(*pairs(20_000))
    held = pairs(2_000)
    held_out.update(*held)
    ridges = (0.0, 0.1, 10.0)
    by_eigenvalue = best_alignment(fit, held_out, held, ridges=ridges)
    by_neighbours = best_alignment(fit, held_out, held, ridges=ridges, judge="agreement")
    assert by_eigenvalue.ridge == 0.0 < by_neighbours.ridge
    codes = [[found.apply(psi, t=0.0) for psi in held] for found in (by_eigenvalue, by_neighbours)]
    cuts = [agreement(pair, [8, 16]) for pair in codes]
    assert cuts[0] < cuts[1]


def test_a_relation_that_shares_nothing_leaves_the_variance_of_features() -> None:
    """Pairs of unrelated items: no ridge and no t is better than another, so no feature may be dropped."""
    generator = torch.Generator().manual_seed(0)
    scale = torch.linspace(3, 0.1, 32)
    first, second = (torch.randn(1000, 32, generator=generator) * scale for _ in range(2))
    fit = Moments(32).update(first[:500], second[:500])
    held_out = Moments(32).update(first[500:], second[500:])
    pairs = (first[500:], second[500:])
    found = best_alignment(
        fit, held_out, pairs, ridges=(0.0, 100.0), exponents=(0.0, 4.0), judge="agreement", own=False
    )
    assert (found.ridge, found.t) == (100.0, 0.0)
    # For related items, t is chosen as usual.
    shared = torch.randn(1000, 2, generator=generator)
    first, second = (torch.cat([shared, torch.randn(1000, 30, generator=generator)], dim=1) for _ in range(2))
    fit = Moments(32).update(first[:500], second[:500])
    held_out = Moments(32).update(first[500:], second[500:])
    pairs = (first[500:], second[500:])
    found = best_alignment(fit, held_out, pairs, ridges=(0.0, 1.0), exponents=(0.0, 4.0), judge="agreement", own=False)
    assert found.t == 4.0 and found.eigenvalues[1] > 0.8


def test_codes_of_several_lengths_and_exponents_do_not_mix() -> None:
    """What an alignment keeps from its last use belongs to one length, exponent and precision."""
    from eigenmap.spectrum import Alignment

    random = torch.Generator().manual_seed(0)
    rotation = torch.randn(6, 4, generator=random, dtype=torch.float64)
    made = Alignment(torch.ones(6).double(), rotation, torch.tensor([0.9, 0.5, 0.2, 0.1]).double(), torch.ones(4), 1.0)
    psi = torch.randn(3, 6, generator=random)
    for dim, t, kind in ((4, None, torch.float32), (2, None, torch.float32), (2, 0.0, torch.float64), (4, 2.0, None)):
        x = psi if kind is None else psi.to(kind)
        weights = (made.eigenvalues / 0.9) ** (1.0 if t is None else t)
        expected = ((x.double() - 1) @ (rotation * weights))[:, :dim]
        for _ in range(2):
            code = made.apply(x, dim, t, unit=False)
            assert code.dtype == x.dtype
            torch.testing.assert_close(code.double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "size"), [(torch.float32, 2.0**-50), (torch.float32, 2.0**120), (torch.float64, 2.0**-900)]
)
def test_codes_of_any_size_have_norm_1(kind: torch.dtype, size: float) -> None:
    """Outputs of a linear map are as small as its vectors, such as currents in picoampere."""
    from eigenmap.spectrum import Alignment

    made = Alignment(torch.zeros(3), torch.eye(3), torch.tensor([0.9, 0.5, 0.2]), torch.ones(3))
    psi = torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0]]).to(kind)
    torch.testing.assert_close(made.apply(size * psi), made.apply(psi))
