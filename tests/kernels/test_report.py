from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigenmap.kernels.report import groups, judge, judge_by_halves, size, smallest_eigenvalue, warn_of_weak_alpha
from eigenmap.objectives import GramNeuralEF, NeuralEF
from eigenmap.relations.operator import KernelOperator, MatrixOperator

MU = torch.tensor([0.5, 0.2, 0.1, 0.05, -0.05, -0.1], dtype=torch.float64)


def cosines(x: Tensor, k: int = 6) -> Tensor:
    """Functions sqrt(2) cos(pi j x): orthonormal on [0, 1]."""
    j = torch.arange(1, k + 1, dtype=torch.float64)
    return 2**0.5 * torch.cos(torch.pi * x * j)


def kernel(x: Tensor, y: Tensor) -> Tensor:
    return (cosines(x) * MU) @ cosines(y).T


def uniform(n: int, seed: int = 0) -> Tensor:
    return torch.rand(n, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_true_functions_have_their_eigenvalues_up_to_the_measure_of_the_points() -> None:
    """With all six functions the result is exact up to the factor C_jj; with three, the others add noise, no bias."""
    x = uniform(400)
    C = (cosines(x).square()).mean(0)
    torch.testing.assert_close(judge(cosines, KernelOperator(x, kernel)), MU * C, rtol=1e-6, atol=0)
    three = [judge(lambda x: cosines(x, 3), KernelOperator(uniform(200, seed), kernel)) for seed in range(100)]
    torch.testing.assert_close(torch.stack(three).mean(0), MU[:3], rtol=0.02, atol=0)


def test_the_size_of_the_functions_does_not_matter() -> None:
    operator = KernelOperator(uniform(200), kernel)
    scaled = judge(lambda x: cosines(x, 3) * torch.tensor([1e-3, 1.0, 1e3]), operator)
    torch.testing.assert_close(scaled, judge(lambda x: cosines(x, 3), operator))


def test_few_points_are_judged_function_by_function_without_bias() -> None:
    found = [judge(lambda x: cosines(x, 3), KernelOperator(uniform(10, seed), kernel)) for seed in range(3000)]
    torch.testing.assert_close(torch.stack(found).mean(0), MU[:3], rtol=0.1, atol=0.01)


def test_halves_judge_each_other() -> None:
    operator = KernelOperator(uniform(600), kernel)
    found = judge_by_halves(lambda x: cosines(x), operator, 4, torch.ones(1).double() * 0.1, seed=0, ridge=1e-8)
    torch.testing.assert_close(found, MU[:4], rtol=0.15, atol=0)


@pytest.mark.parametrize("n", [300, 1500])
def test_the_bound_is_below_the_smallest_eigenvalue_and_near_it(n: int) -> None:
    bound = smallest_eigenvalue(KernelOperator(uniform(n), kernel))
    assert -0.13 < bound < -0.09


def test_a_positive_kernel_needs_no_shift() -> None:
    assert smallest_eigenvalue(MatrixOperator(uniform(50), torch.ones(50, 50).double())) == 0


@pytest.mark.parametrize("n", [300, 1500])
def test_points_of_weight_zero_do_not_change_the_bound(n: int) -> None:
    x, p = uniform(n), torch.full((n,), 1.0, dtype=torch.float64)
    p[::3] = 0
    bound = smallest_eigenvalue(KernelOperator(x, kernel, p / p.sum()))
    assert bound == pytest.approx(smallest_eigenvalue(KernelOperator(x[p > 0], kernel)), rel=1e-2)


def test_groups_are_what_the_points_cannot_tell_apart() -> None:
    mu = torch.tensor([1.0, 0.5, 0.49, 0.3, 0.1, 0.0999, 0.0998])
    assert groups(mu, 100) == [[0], [1, 2], [3], [4, 5, 6]]
    assert groups(mu, 10**9) == [[0], [1], [2], [3], [4, 5, 6]]
    assert groups(torch.tensor([]), 100) == []


def test_eigenvalues_of_a_graph_are_compared_by_their_distance_from_one() -> None:
    mu = torch.tensor([1.0, 0.999999, 0.99, 0.98, 0.9799], dtype=torch.float64)
    assert groups(mu, 1000) == [[0, 1, 2, 3, 4]]
    assert groups(mu, 1000, components=1) == [[0], [1], [2], [3, 4]]
    assert groups(mu, 1000, components=2) == [[0, 1], [2], [3, 4]]


def test_the_warning_names_a_sufficient_alpha(recwarn: pytest.WarningsRecorder) -> None:
    mu = torch.tensor([0.8, 0.4, 0.1, 1e-6])
    with pytest.warns(UserWarning, match=r"alpha = 1 .*3 modes.*0\.001.*exceed 1\.5"):
        warn_of_weak_alpha(NeuralEF(alpha=1.0), mu, floor=1e-3, unit=0.8)
    recwarn.clear()
    for enough in (NeuralEF(alpha=1.6), NeuralEF(alpha=1.0, ratio=True), NeuralEF(ordered=False), GramNeuralEF()):
        warn_of_weak_alpha(enough, mu, floor=1e-3, unit=0.8)
    assert not recwarn.list


def test_the_size_of_a_kernel_without_a_diagonal_is_that_of_its_entries() -> None:
    gram = torch.tensor([[0.0, 2.0, 0.0], [2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]).double()
    p, x = torch.tensor([0.5, 0.25, 0.25]).double(), torch.zeros(3, 1).double()
    expected = (2 * (0.5 * 0.25 * 4 + 0.25 * 0.25 * 1)) ** 0.5
    assert size(MatrixOperator(x, gram, p)) == pytest.approx(expected)
    assert size(MatrixOperator(x, gram.to_sparse(), p)) == pytest.approx(expected)
    assert size(MatrixOperator(x, gram + torch.eye(3).double(), p)) == pytest.approx(1.0)
