from __future__ import annotations

import torch
from torch import Tensor

from eigenmap.kernels.hold_out import RIDGES, HeldOutGram, Verdict, best_verdict
from eigenmap.kernels.ritz import DISTINCT, solve
from eigenmap.relations.kernel import rbf
from eigenmap.relations.operator import MatrixOperator

N = 200


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


X = 2 * torch.rand(N, 1, generator=generator(1), dtype=torch.float64) - 1
CLEAN = rbf(X, X, 0.8)


def noisy() -> Tensor:
    noise = torch.randn(N, N, generator=generator(2), dtype=torch.float64).triu(1)
    return CLEAN + noise + noise.T


def bumps(x: Tensor) -> Tensor:
    """80 overlapping bumps; their smooth combinations have the large singular values."""
    return rbf(x, torch.linspace(-1.2, 1.2, 80).double()[:, None], 0.1)


def held_out(gram: Tensor, p: Tensor | None = None) -> HeldOutGram:
    return HeldOutGram(MatrixOperator(X, gram, p), generator())


def test_verdicts_are_those_of_the_equation() -> None:
    held = held_out(noisy())
    t = held.p.nonzero().flatten()
    verdict = held.judge(bumps, k=3)[0]
    fitted = solve(bumps, MatrixOperator(X[t], noisy()[t][:, t]), 3, torch.ones(1).double(), seed=0)
    phi, known = bumps(X[held.rows]) @ fitted.head, bumps(X[t]) @ fitted.head
    image = noisy()[held.rows][:, t] @ known / len(t)
    expected = (phi * image).mean(0) / phi.square().mean(0).sqrt()
    assert verdict.ridge == DISTINCT
    torch.testing.assert_close(verdict.eigenvalues, expected)


def test_points_that_judge_and_points_without_weight_have_no_part_in_the_fit() -> None:
    p = torch.ones(N).double()
    p[:50] = 0
    held = held_out(CLEAN, p / p.sum())
    assert len(held.rows) == 30 and int(held.rows.min()) >= 50
    assert int((held.p > 0).sum()) == 120 and not bool(held.p[held.rows].any())
    assert len(held.training().x) == 120
    torch.testing.assert_close(held.p.sum(), torch.tensor(1.0).double())


def test_noise_cuts_the_span_and_a_clean_matrix_does_not() -> None:
    scale = torch.ones(1).double()
    z = torch.linspace(-1, 1, 101).double()[:, None]
    exact = solve(bumps, MatrixOperator(X, CLEAN), 2, scale, seed=0)

    def overlap(ridge: float) -> float:
        found = solve(bumps, MatrixOperator(X, noisy()), 2, scale, seed=0, ridge=ridge)
        mine, true = torch.linalg.qr(bumps(z) @ found.head).Q, torch.linalg.qr(bumps(z) @ exact.head).Q
        return float(torch.linalg.svdvals(mine.T @ true).min())

    chosen = best_verdict(held_out(noisy()).judge(bumps, 2)).ridge
    assert chosen > 1e-5
    assert overlap(chosen) > 0.9 > overlap(DISTINCT)
    assert best_verdict(held_out(CLEAN).judge(bumps, 5)).ridge <= 1e-4


def test_no_cut_leaves_fewer_functions_than_asked_for() -> None:
    verdicts = held_out(noisy()).judge(bumps, k=25)
    assert 1 <= len(verdicts) < len(RIDGES)
    narrow = held_out(noisy()).judge(lambda x: torch.cat([x, x**2], 1), k=5)  # the span has two
    assert [verdict.ridge for verdict in narrow] == list(RIDGES)
    assert bool((narrow[0].eigenvalues[2:] == 0).all())


def test_small_eigenvalues_count_down_to_the_noise_and_not_below() -> None:
    def verdict(small: float, error: float) -> Verdict:
        return Verdict(0.1, torch.tensor([1.0, small]), torch.tensor([error, error]), 0.0)

    lost, found = verdict(1e-4, 1e-9), verdict(1e-3, 1e-9)
    assert best_verdict([lost, found]) is found
    better = Verdict(0.1, torch.tensor([1.1, 1e-4]), torch.tensor([1e-2, 1e-2]), 0.0)
    assert best_verdict([better, verdict(1e-3, 1e-2)]) is better
