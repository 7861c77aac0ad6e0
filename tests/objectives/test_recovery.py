"""Recovery of known eigenfunctions by training a free table of codes.

The relation flips three bits independently. Its eigenfunctions are the eight Walsh functions, products of the
bits' signs; their eigenvalues are the products of the bits' correlations; the constant has eigenvalue 1.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from eigenmap.objectives import GramNeuralEF, NestedMoments, NeuralEF, SpectralContrastive, build

CORRELATIONS = (0.8, 0.6, 0.4)


def relation(correlations: tuple[float, ...] = CORRELATIONS) -> tuple[Tensor, Tensor, Tensor]:
    """Eigenvalues (8,) in descending order, eigenfunctions (states, 8) and the kernel p(x, x+) / p(x) p(x+)."""
    signs = torch.tensor(list(itertools.product([1.0, -1.0], repeat=3)), dtype=torch.float64)
    subsets = list(itertools.product([0, 1], repeat=3))
    phi = torch.stack([(signs ** torch.tensor(subset)).prod(1) for subset in subsets], 1)
    mu = torch.tensor([torch.tensor(correlations)[torch.tensor(s) == 1].prod() for s in subsets]).double()
    order = mu.argsort(descending=True)
    mu, phi = mu[order], phi[:, order]
    return mu, phi, (phi * mu) @ phi.T


def train(objective: nn.Module, k: int = 4, steps: int = 600, pairs: bool = False, seed: int = 0) -> Tensor:
    """Train a free table of codes (states, k) on the whole relation, as a Gram block or as weighted pairs."""
    kernel = relation()[2]
    x, x_plus = torch.cartesian_prod(torch.arange(8), torch.arange(8)).T
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(8, k, generator=generator, dtype=torch.float64).requires_grad_()
    optimizer = torch.optim.Adam([table], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        loss = objective(table[x], table[x_plus], kernel.flatten()) if pairs else objective(table, table, kernel)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return table.detach()


def overlaps(codes: Tensor) -> Tensor:
    """|<psi_j, phi_l>| of features scaled to unit second moment: rows features, columns eigenfunctions."""
    _, phi, _ = relation()
    return ((codes / codes.square().mean(0).sqrt()).T @ phi / 8).abs()


def assert_found(codes: Tensor, modes: list[int]) -> None:
    expected = torch.eye(8, dtype=torch.float64)[modes]
    torch.testing.assert_close(overlaps(codes), expected, rtol=0, atol=0.05)


@pytest.mark.parametrize("pairs", [False, True], ids=["block", "weights"])
@pytest.mark.parametrize(
    "objective",
    [NeuralEF(alpha=0.7), build("neuralef-ratio"), build("neuralef-shifted")],
    ids=["above the threshold", "ratio", "shifted"],
)
def test_neuralef_finds_the_eigenfunctions_in_order(objective: nn.Module, pairs: bool) -> None:
    assert_found(train(objective, pairs=pairs), [0, 1, 2, 3])


def test_neuralef_repeats_eigenfunctions_below_the_threshold() -> None:
    """The threshold is .52. At .25 the third feature gains .75 by repeating the constant, .6 by its own function."""
    assert_found(train(NeuralEF(alpha=0.25)), [0, 1, 0, 1])


@pytest.mark.parametrize("unbiased", [False, True])
def test_gram_penalty_finds_the_centred_eigenfunctions_in_order(unbiased: bool) -> None:
    codes = train(GramNeuralEF(b=1.0, unbiased=unbiased), pairs=not unbiased)
    assert_found(codes - codes.mean(0), [1, 2, 3, 4])


def test_gram_penalty_repeats_eigenfunctions_when_too_weak() -> None:
    """b = .1 is less than mu_1 - mu_2 = .8 - .6."""
    codes = train(GramNeuralEF(b=0.1), k=2)
    assert_found(codes - codes.mean(0), [1, 1])


def test_nested_moments_of_raw_rows_find_scaled_eigenfunctions_in_order() -> None:
    mu, _, _ = relation()
    codes = train(NestedMoments(rows="raw"), steps=1500)
    assert_found(codes - codes.mean(0), [1, 2, 3, 4])
    torch.testing.assert_close(codes.var(0, correction=0), mu[1:5], rtol=0.02, atol=0.02)


def test_spectral_contrastive_finds_the_span_alone() -> None:
    codes = train(SpectralContrastive(rows="raw"))
    mu, phi, _ = relation()
    torch.testing.assert_close(codes @ codes.T, (phi[:, :4] * mu[:4]) @ phi[:, :4].T, rtol=0, atol=1e-3)
    assert not torch.allclose(overlaps(codes), torch.eye(8, dtype=torch.float64)[:4], atol=0.1)


correlation = st.floats(0.2, 0.95)


def best_response(objective: nn.Module, k: int, correlations: tuple[float, ...], modes: list[int]) -> int:
    """Return which of `modes` minimises the loss for the last of k features, given the leading ones before it."""
    _, phi, kernel = relation(correlations)
    losses = []
    for mode in modes:
        table = phi[:, [*modes[: k - 1], mode]]
        losses.append(float(objective(table, table, kernel)))
    return modes[min(range(len(modes)), key=losses.__getitem__)]


@settings(max_examples=60, deadline=None)
@given(correlations=st.tuples(correlation, correlation, correlation), k=st.integers(2, 8), factor=st.floats(0.3, 3))
def test_ordering_condition(correlations: tuple[float, ...], k: int, factor: float) -> None:
    """Feature k settles on phi_k if and only if alpha > max_{i<k} (mu_i - mu_k) / mu_i^2."""
    mu, _, _ = relation(correlations)
    assume(float((mu[:-1] - mu[1:]).min()) > 1e-3 and abs(factor - 1) > 1e-3)
    threshold = float(((mu[: k - 1] - mu[k - 1]) / mu[: k - 1] ** 2).max())
    taken = best_response(NeuralEF(alpha=factor * threshold), k, correlations, list(range(8)))
    assert (taken == k - 1) == (factor > 1)


@settings(max_examples=60, deadline=None)
@given(correlations=st.tuples(correlation, correlation, correlation), k=st.integers(2, 7), b=st.floats(0.01, 1.2))
def test_ordering_condition_of_the_gram_penalty(correlations: tuple[float, ...], k: int, b: float) -> None:
    """Feature k settles on phi_k, the constant not counted, if and only if b > mu_1 - mu_k; b = 1 always does."""
    mu = relation(correlations)[0][1:]
    assume(float((mu[:-1] - mu[1:]).min()) > 1e-3 and abs(float(mu[0] - mu[k - 1]) - b) > 1e-3)
    modes = list(range(1, 8))
    assert (best_response(GramNeuralEF(b=b), k, correlations, modes) == k) == (b > float(mu[0] - mu[k - 1]))
    assert best_response(GramNeuralEF(b=1.0), k, correlations, modes) == k


@settings(max_examples=60, deadline=None)
@given(correlations=st.tuples(correlation, correlation, correlation), k=st.integers(2, 8), c=st.floats(0.05, 0.5))
def test_ordering_condition_of_the_shift_and_the_ratio(correlations: tuple[float, ...], k: int, c: float) -> None:
    """alpha just above 1/(4c) with the shift c, and alpha = 1 with the ratio, order every positive spectrum."""
    mu, _, _ = relation(correlations)
    assume(float((mu[:-1] - mu[1:]).min()) > 1e-3)
    shifted, ratio = NeuralEF(alpha=1.01 / (4 * c), shift=c), NeuralEF(alpha=1.0, ratio=True)
    for objective in (shifted, ratio):
        assert best_response(objective, k, correlations, list(range(8))) == k - 1
