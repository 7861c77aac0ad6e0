"""What the method rests on, confirmed on kernels small enough to know everything about.

Six states with unequal probabilities p, orthonormal functions phi_1 ... phi_6 of L2(p), and the kernel

    kappa(x, x') = sum_l mu_l phi_l(x) phi_l(x')

with eigenvalues of our choice, signed. A state of probability c/10 stands in c of 10 rows, so that the objectives see
exact expectations and no noise. The games are solved feature by feature: the payoff of feature j, the earlier ones
held, is a quadratic form on the unit sphere, whose every local maximum is global: descent from a random start finds it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from eigenmap.objectives import BarlowTwins, GramNeuralEF, NeuralEF

COUNTS = torch.tensor([1, 3, 2, 1, 2, 1])
STATES = len(COUNTS)
ROWS = torch.arange(STATES).repeat_interleave(COUNTS)
P = COUNTS.double() / COUNTS.sum()

POSITIVE = (0.9, 0.7, 0.5, 0.3, 0.15, 0.05)
INDEFINITE = (0.8, 0.5, 0.2, -0.3, -0.5, -0.6)
MOSTLY_NEGATIVE = (0.8, -0.1, -0.2, -0.4, -0.5, -0.6)
SINGULAR = (0.8, 0.4, 0.0, -0.2, -0.4, -0.5)
WITH_CONSTANT = (1.0, 0.9, 0.6, 0.3, -0.2, -0.7)


def functions(seed: int = 0) -> Tensor:
    """Orthonormal functions (states, 6) of L2(p), the first of them constant."""
    random = torch.randn(STATES, STATES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    random[:, 0] = P.sqrt()
    return torch.linalg.qr(random).Q / P.sqrt()[:, None]


PHI = functions()


def kernel_of(mu: tuple[float, ...]) -> Tensor:
    """kappa on the states."""
    return (PHI * torch.tensor(mu, dtype=torch.float64)) @ PHI.T


def loss_of(objective: nn.Module, table: Tensor, kernel: Tensor) -> Tensor:
    """The objective of functions given by their values on the states (states, k)."""
    loss: Tensor = objective(table[ROWS], table[ROWS], kernel[ROWS][:, ROWS])
    return loss


def descend(loss: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """A local minimum of a `loss` that does not depend on the scale of the columns of its argument."""
    for _ in range(20):
        x = (start / start.norm(dim=0)).requires_grad_()
        (gradient,) = torch.autograd.grad(loss(x), x)
        if float(gradient.abs().max()) < 1e-7:
            return x.detach()
        optimizer = torch.optim.LBFGS([x], max_iter=60, tolerance_change=1e-18, line_search_fn="strong_wolfe")

        def closure(x: Tensor = x) -> Tensor:
            x.grad = None
            value = loss(x)
            value.backward()
            return value

        optimizer.step(closure)
        start = x.detach()
    raise AssertionError("descent has not converged")


def play(objective: nn.Module, mu: tuple[float, ...], k: int) -> Tensor:
    """The solution of the game: functions (states, k) of unit norm, each the best answer to those before it."""
    kernel = kernel_of(mu)
    generator = torch.Generator().manual_seed(7)
    held = torch.empty(STATES, 0, dtype=torch.float64)
    for _ in range(k):
        start = torch.randn(STATES, 1, generator=generator, dtype=torch.float64)
        psi = descend(lambda free, held=held: loss_of(objective, torch.cat([held, free], 1), kernel), start)
        sees_the_mean = not isinstance(objective, GramNeuralEF) or not objective.centre
        psi = psi if sees_the_mean else psi - P @ psi
        held = torch.cat([held, psi / (P @ psi.square()).sqrt()], 1)
    return held


def assert_modes(codes: Tensor, modes: list[int], atol: float = 1e-4) -> None:
    """Feature j is phi_l with l = modes[j], counted from 1, up to its sign."""
    overlaps = (codes.T @ (P[:, None] * PHI)).abs()
    expected = torch.eye(STATES, dtype=torch.float64)[[mode - 1 for mode in modes]]
    torch.testing.assert_close(overlaps, expected, rtol=0, atol=atol)


def threshold(mu: tuple[float, ...], k: int, shift: float = 0.0) -> float:
    """max_{i<j<=k} (mu_i - mu_j) / mu_i^2 of the eigenvalues (1 - shift) mu + shift."""
    m = [(1 - shift) * value + shift for value in mu[:k]]
    return max((m[i] - m[j]) / m[i] ** 2 for j in range(k) for i in range(j))


class TestShiftedKernel:
    """The lemma: kappa - mu_min delta / sqrt(p p') has the same eigenfunctions and no negative eigenvalue."""

    def test_same_eigenfunctions_and_positive(self) -> None:
        shifted = kernel_of(INDEFINITE) - min(INDEFINITE) * torch.diag(1 / P)
        # The operator f -> sum_x' shifted(x, x') p(x') f(x') on the functions of the kernel itself.
        applied = shifted @ (P[:, None] * PHI)
        expected = torch.tensor(INDEFINITE, dtype=torch.float64) - min(INDEFINITE)
        torch.testing.assert_close(applied, PHI * expected)
        symmetric = P.sqrt()[:, None] * shifted * P.sqrt()
        torch.testing.assert_close(torch.linalg.eigvalsh(symmetric), expected.flip(0), rtol=0, atol=1e-12)

    def test_the_shift_of_the_objective_is_this_kernel(self) -> None:
        """R + c G needs no delta function: same loss and same gradient as the kernel with one."""
        c = 0.4
        by_hand = (1 - c) * kernel_of(INDEFINITE) + c * torch.diag(1 / P)
        table = functions(seed=3)[:, :4].clone().requires_grad_()
        pairs = ((NeuralEF(alpha=2.0, shift=c), kernel_of(INDEFINITE)), (NeuralEF(alpha=2.0), by_hand))
        results = []
        for objective, kernel in pairs:
            loss = loss_of(objective, table, kernel)
            results.append((loss, *torch.autograd.grad(loss, table)))
        torch.testing.assert_close(*results)


class TestIndefiniteKernels:
    """The theorem: with k - 1 positive eigenvalues the game is solved by the k leading eigenfunctions."""

    def test_one_negative_eigenvalue_at_the_end(self) -> None:
        assert_modes(play(NeuralEF(alpha=1.1 * threshold(INDEFINITE, 4)), INDEFINITE, 4), [1, 2, 3, 4])

    def test_positive_is_more_than_is_needed(self) -> None:
        """One positive eigenvalue of five: none of them is zero, and that is enough."""
        alpha = 1.1 * threshold(MOSTLY_NEGATIVE, 5)
        assert_modes(play(NeuralEF(alpha=alpha), MOSTLY_NEGATIVE, 5), [1, 2, 3, 4, 5])

    def test_leading_means_largest_not_strongest(self) -> None:
        """-.6 is the second strongest eigenvalue of `INDEFINITE`, and the last."""
        psi = play(NeuralEF(alpha=100.0), INDEFINITE, STATES)
        assert_modes(psi[:, -1:], [6])


class TestZeroEigenvalue:
    """R_ij says nothing about a function with mu_i = 0, so nothing keeps later features off it, at any strength."""

    @pytest.mark.parametrize("factor", [1.1, 50.0])
    def test_it_repeats_for_ever(self, factor: float) -> None:
        found = max((SINGULAR[i] - SINGULAR[2]) / SINGULAR[i] ** 2 for i in range(2))  # enough to get there
        assert_modes(play(NeuralEF(alpha=factor * found), SINGULAR, 5), [1, 2, 3, 3, 3])

    def test_the_shift_cures_it(self) -> None:
        objective = NeuralEF(alpha=1.1 * threshold(SINGULAR, 5, shift=0.5), shift=0.5)
        assert_modes(play(objective, SINGULAR, 5), [1, 2, 3, 4, 5])


class TestOrderingCondition:
    """The eigenfunctions solve the game if and only if alpha > max (mu_i - mu_j) / mu_i^2."""

    @pytest.mark.parametrize("mu", [POSITIVE, INDEFINITE, MOSTLY_NEGATIVE], ids=["positive", "indefinite", "negative"])
    def test_above_it_they_do(self, mu: tuple[float, ...]) -> None:
        assert_modes(play(NeuralEF(alpha=1.05 * threshold(mu, 5)), mu, 5), [1, 2, 3, 4, 5])

    @pytest.mark.parametrize(
        ("mu", "modes"),
        [
            # phi_5 is left out: (.3 - .15) / .3^2 = 1.67 is the threshold, and .3 - 1.58 * .09 = .158 > .15.
            (POSITIVE, [1, 2, 3, 4, 4]),
            # The threshold is (.2 + .5) / .2^2 = 17.5, and .2 - 16.6 * .04 = -.465 > -.5.
            (INDEFINITE, [1, 2, 3, 4, 3]),
            # (-.1 + .5) / .1^2 = 40, and -.1 - 38 * .01 = -.48 > -.5.
            (MOSTLY_NEGATIVE, [1, 2, 3, 4, 2]),
        ],
        ids=["positive", "indefinite", "negative"],
    )
    def test_below_it_they_repeat(self, mu: tuple[float, ...], modes: list[int]) -> None:
        assert_modes(play(NeuralEF(alpha=0.95 * threshold(mu, 5)), mu, 5), modes)

    def test_the_published_strength_finds_few_functions(self) -> None:
        """alpha = .1: phi_1 pays .9, .819, .738, then .657, less than the .7 of phi_2."""
        assert_modes(play(NeuralEF(alpha=0.1), POSITIVE, 4), [1, 1, 1, 2])

    @pytest.mark.parametrize(
        ("c", "factor", "repeated"), [(0.5, 1 / 18, 3), (0.2, 5.7, 4)], ids=["enough", "too little"]
    )
    def test_with_the_shift(self, c: float, factor: float, repeated: int) -> None:
        """The same condition on the eigenvalues (1 - c) mu + c.

        If they are all well above zero it is mild (.97 where it was 17.5). A shift that only brings a negative one
        close to zero (-.3 to -.04) makes it worse (100): c has to follow from a bound on the smallest eigenvalue.
        """
        shifted = threshold(INDEFINITE, 5, shift=c)
        assert shifted == pytest.approx(factor * threshold(INDEFINITE, 5), rel=0.01)
        above, below = (NeuralEF(alpha=f * shifted, shift=c) for f in (1.05, 0.95))
        assert_modes(play(above, INDEFINITE, 5), [1, 2, 3, 4, 5])
        assert_modes(play(below, INDEFINITE, 5), [1, 2, 3, 4, repeated])


class TestRatio:
    """R_ij^2 / R_ii needs alpha > 1 - mu_j / mu_i only; that is below 1 while mu_j > 0, and fails after."""

    def test_one_serves_every_positive_spectrum(self) -> None:
        assert_modes(play(NeuralEF(alpha=1.0, ratio=True), POSITIVE, 6), [1, 2, 3, 4, 5, 6])

    def test_both_sides_of_its_condition(self) -> None:
        largest = 1 - POSITIVE[3] / POSITIVE[0]
        assert_modes(play(NeuralEF(alpha=1.05 * largest, ratio=True), POSITIVE, 4), [1, 2, 3, 4])
        assert_modes(play(NeuralEF(alpha=0.95 * largest, ratio=True), POSITIVE, 4)[:, 3:], [1])

    def test_fails_at_the_first_negative_eigenvalue(self) -> None:
        """Behind alpha = 1 every earlier function with mu_i > 0 pays 0, more than mu_4 = -.3."""
        psi = play(NeuralEF(alpha=1.0, ratio=True), INDEFINITE, 4)
        assert_modes(psi[:, :3], [1, 2, 3])
        last = psi[:, 3] @ (P[:, None] * PHI)
        assert float(last[:3].square().sum()) == pytest.approx(1.0, abs=1e-6)
        assert_modes(play(NeuralEF(alpha=1.05 * (1 + 0.3 / 0.2), ratio=True), INDEFINITE, 4), [1, 2, 3, 4])

    def test_a_negative_divisor_would_reward_repetition(self) -> None:
        """mu_i - alpha mu_i^2 / mu_i = (1 - alpha) mu_i > mu_i for mu_i < 0: why R_ii is kept above `small`."""
        mu_i, mu_j, alpha = -0.3, -0.5, 4.0
        assert mu_i - alpha * mu_i**2 / mu_i > 0 > mu_j  # as it stands: repeating pays more than any phi_j can
        kept = NeuralEF(alpha=alpha, ratio=True, small=1e-3)
        assert_modes(play(kept, INDEFINITE, 5), [1, 2, 3, 4, 5])

    def test_the_divisor_kept_positive_fails_for_small_negative_eigenvalues(self) -> None:
        """Then the strength on phi_i is alpha / small: ordered if and only if that is above (mu_i - mu_j) / mu_i^2."""
        mu = (0.8, -0.01, -0.3, -0.4, -0.5, -0.6)
        needed = (mu[1] - mu[2]) / mu[1] ** 2  # 2,900
        weak, strong = (NeuralEF(alpha=2.0, ratio=True, small=2.0 / (f * needed)) for f in (0.95, 1.05))
        assert_modes(play(weak, mu, 3), [1, 2, 2])
        assert_modes(play(strong, mu, 3), [1, 2, 3])

    def test_the_shift_cures_it(self) -> None:
        """(1 - c) mu + c > 0 for all of them, so alpha = 1 is enough again."""
        assert_modes(play(NeuralEF(alpha=1.0, ratio=True, shift=0.5), INDEFINITE, 6), [1, 2, 3, 4, 5, 6])


class TestGramPenalty:
    """b > mu_i - mu_j for all i < j; the constant function is centred away and does not count."""

    def test_both_sides_of_its_condition(self) -> None:
        largest = WITH_CONSTANT[1] - WITH_CONSTANT[4]  # k = 4: .9 + .2
        assert_modes(play(GramNeuralEF(b=1.05 * largest), WITH_CONSTANT, 4), [2, 3, 4, 5])
        assert_modes(play(GramNeuralEF(b=0.95 * largest), WITH_CONSTANT, 4), [2, 3, 4, 2])

    def test_two_serves_every_spectrum(self) -> None:
        assert_modes(play(GramNeuralEF(b=2.0), WITH_CONSTANT, 5), [2, 3, 4, 5, 6])

    def test_zero_is_no_special_case(self) -> None:
        mu = (1.0, *SINGULAR[:5])
        assert_modes(play(GramNeuralEF(b=2.0), mu, 5), [2, 3, 4, 5, 6])

    def test_without_centring_the_first_function_counts(self) -> None:
        """The same condition for all of them: .8 + .3 at k = 4."""
        largest = INDEFINITE[0] - INDEFINITE[3]
        assert_modes(play(GramNeuralEF(b=1.05 * largest, centre=False), INDEFINITE, 4), [1, 2, 3, 4])
        assert_modes(play(GramNeuralEF(b=0.95 * largest, centre=False), INDEFINITE, 4), [1, 2, 3, 1])


class TestBarlowTwins:
    """Its loss has the same ingredients as ours for linear probes, R_jj and R_ij^2, and other solutions.

    The relation: two bits, flipped independently. Eigenfunctions: the constant, the bits' signs and their product, with
    eigenvalues 1, .9, .5 and .45.
    """

    SIGNS = torch.tensor(list(itertools.product([1.0, -1.0], repeat=2)), dtype=torch.float64)
    WALSH = torch.stack([torch.ones(4).double(), SIGNS[:, 0], SIGNS[:, 1], SIGNS.prod(1)], 1)
    MU = torch.tensor([1.0, 0.9, 0.5, 0.45], dtype=torch.float64)

    def overlaps(self, objective: nn.Module, k: int) -> Tensor:
        """|<psi_j, phi_l>| at the lowest of several minima, psi of unit second moment."""
        x, x_plus = torch.cartesian_prod(torch.arange(4), torch.arange(4)).T
        weights = ((self.WALSH * self.MU) @ self.WALSH.T).flatten()  # p(x, x+) up to a factor: not negative

        def loss(table: Tensor) -> Tensor:
            value: Tensor = objective(table[x], table[x_plus], weights)
            return value

        generator = torch.Generator().manual_seed(0)
        starts = [torch.randn(4, k, generator=generator, dtype=torch.float64) for _ in range(5)]
        psi = min((descend(loss, start) for start in starts), key=lambda table: float(loss(table)))
        psi = psi - psi.mean(0) if isinstance(objective, BarlowTwins) else psi  # it does not see the mean
        return ((psi / psi.square().mean(0).sqrt()).T @ self.WALSH / 4).abs()

    def test_ours_are_eigenfunctions(self) -> None:
        """One each of the three leading ones, in any order."""
        overlaps = self.overlaps(NeuralEF(alpha=5.0, ordered=False), 3)
        expected = torch.eye(4, dtype=torch.float64)[overlaps.argmax(1)]
        torch.testing.assert_close(overlaps, expected, rtol=0, atol=1e-4)
        assert sorted(overlaps.argmax(1).tolist()) == [0, 1, 2]

    @pytest.mark.parametrize("lambda_", [0.5, 2.0, 100.0])
    def test_its_own_are_mixtures_at_every_strength(self, lambda_: float) -> None:
        """The square (1 - R_jj)^2 is convex, so two features in the middle lose less than one good and one bad.

        At (phi_2, phi_3) the loss is .1^2 + .5^2 = .26. The pair a phi_2 +- b phi_3 with .9 a^2 = .5 b^2 has R_12 = 0
        too, R_jj = .643 (the harmonic mean of .9 and .5) and the loss .255. It is not orthogonal: a^2 - b^2 = -.29.
        """
        overlaps = self.overlaps(BarlowTwins(lambda_=lambda_), 2)[:, 1:3]
        assert float(overlaps.min()) > 0.3 and float(overlaps.max()) < 0.95
        torch.testing.assert_close(overlaps.square().sum(1), torch.ones(2, dtype=torch.float64))

    def test_its_own_repeat_each_other_at_the_published_strength(self) -> None:
        """lambda = .02 (k = 2048): 2 * .1^2 + 2 lambda * .9^2 = .05 for phi_2 twice, .26 for one each."""
        overlaps = self.overlaps(BarlowTwins(lambda_=0.0204), 2)
        torch.testing.assert_close(overlaps[:, 1], torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-6)
