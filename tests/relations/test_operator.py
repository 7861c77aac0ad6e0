from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.relations import operator as module
from eigenmap.relations.kernel import rbf
from eigenmap.relations.operator import KernelOperator, MatrixOperator, Operator


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X, Z, F = random(9, 2), random(4, 2, seed=1), random(9, 3, seed=2)
P = torch.arange(1.0, 10).double() / 45
OPERATORS: dict[str, Operator] = {
    "function": KernelOperator(X, rbf, P),
    "dense": MatrixOperator(X, rbf(X, X), P),
    "sparse": MatrixOperator(X, rbf(X, X).to_sparse(), P),
}


def reference(z: Tensor) -> Tensor:
    """(T f)(z) by a double loop."""
    rows = []
    for point in z:
        total = torch.zeros(3, dtype=torch.float64)
        for i in range(9):
            total += P[i] * torch.exp(-(point - X[i]).square().sum() / 2) * F[i]
        rows.append(total)
    return torch.stack(rows)


@pytest.mark.parametrize("name", OPERATORS)
def test_is_the_weighted_sum(name: str) -> None:
    torch.testing.assert_close(OPERATORS[name].apply(F), reference(X))
    torch.testing.assert_close(OPERATORS[name].diagonal(), torch.ones(9).double())


def test_a_function_can_be_asked_anywhere_strip_by_strip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENTRIES", 18)  # two rows at a time
    torch.testing.assert_close(OPERATORS["function"].at(Z, F), reference(Z))


def test_a_matrix_cannot_unless_it_is_told_how() -> None:
    assert not OPERATORS["dense"].extends
    with pytest.raises(EigenmapError, match="points that are not in it"):
        OPERATORS["dense"].at(Z, F)
    told = MatrixOperator(X, rbf(X, X), P, extension=lambda z, f: rbf(z, X) @ (P[:, None] * f))
    assert told.extends
    torch.testing.assert_close(told.at(Z, F), reference(Z))


@pytest.mark.parametrize("name", OPERATORS)
def test_restricted_to_some_points(name: str) -> None:
    rows = torch.tensor([5, 0, 7])
    part = OPERATORS[name].restrict(rows)
    p = P[rows] / P[rows].sum()
    torch.testing.assert_close(part.apply(F[rows]), rbf(X[rows], X[rows]) @ (p[:, None] * F[rows]))
    assert float(part.p.sum()) == pytest.approx(1)


def test_the_measure_is_uniform_unless_given() -> None:
    torch.testing.assert_close(KernelOperator(X, rbf).apply(F), rbf(X, X) @ F / 9)
    torch.testing.assert_close(MatrixOperator(X, rbf(X, X)).apply(F), rbf(X, X) @ F / 9)
    torch.testing.assert_close(OPERATORS["function"].block(), rbf(X, X))
