"""Assessment of eigenvalues: on other points, by degenerate group, relative to the objective's strength."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eigenmap.kernels.ritz import Span, solve
from eigenmap.objectives import NeuralEF
from eigenmap.relations.operator import Operator

FEWEST_POINTS = 4
"""Minimum number of points per function for judging all functions together."""


def judge(functions: Callable[[Tensor], Tensor], operator: Operator) -> Tensor:
    """Return eigenvalues of given functions on points that were not used to choose them.

    With C = E[phi phi^T] and A = E[phi T phi^T] on those points,

        mu_j = (C^-1 A C^-1)_jj C_jj

    For true eigenfunctions A = C diag(mu) C + (missing modes). The functions therefore do not disturb each other,
    although on n points they are orthogonal only up to n^-1/2: a plain Rayleigh quotient A_jj / C_jj adds mu_1 / n to
    all of them. The missing modes add E[residual kernel(x, x)] / n from pairs of a point with itself, which is
    subtracted. A graph of neighbours satisfies T phi_j = mu_j phi_j on any points and has no such pairs: there the
    plain quotient is the eigenvalue.
    """
    phi, p = functions(operator.x), operator.p[:, None]
    C, A = (p * phi).T @ phi, (p * phi).T @ operator.apply(phi)
    if operator.components:
        plain: Tensor = A.diagonal() / C.diagonal().clamp_min(1e-300)
        return plain
    diagonal = operator.diagonal()
    if len(phi) < FEWEST_POINTS * phi.shape[1]:  # too few to separate the functions: judge each by itself
        own = (p.square() * phi.square() * diagonal[:, None]).sum(0)
        across = (A.diagonal() - own) / (1 - p.square().sum()).clamp_min(1e-12)
        quotients: Tensor = across / C.diagonal().clamp_min(1e-300)
        return quotients
    size = C.diagonal().clamp_min(1e-300)
    unit = size.rsqrt()
    eye = torch.eye(len(C)).to(C)
    inverse = torch.linalg.inv(unit[:, None] * C * unit + 1e-9 * eye)

    def eigenvalues(A: Tensor) -> Tensor:
        whitened: Tensor = inverse @ (unit[:, None] * A * unit) @ inverse
        return whitened.diagonal()

    explained = phi.square() @ (eigenvalues(A) / size)
    own = p.square() * (diagonal - explained)[:, None]
    return eigenvalues(A - (own * phi).T @ phi)


def judge_by_halves(span: Span, operator: Operator, k: int, scale: Tensor, seed: int, ridge: float) -> Tensor:
    """Return eigenvalues of a last layer solved on one half of the points, judged on the other, averaged both ways."""
    order = torch.randperm(len(operator.x), generator=torch.Generator().manual_seed(seed)).to(operator.x.device)
    halves = [operator.restrict(rows) for rows in order.tensor_split(2)]
    total = torch.zeros(k, dtype=torch.float64)
    for fitted, judged in (halves, halves[::-1]):
        solution = solve(span, fitted, k, scale, seed, ridge)
        mu = judge(lambda x, head=solution.head: span(x) @ head, judged)  # type: ignore[misc]
        total[: len(mu)] += mu.cpu() / 2
    return total


def size(operator: Operator) -> float:
    """Return the sum of all eigenvalues, E|kappa(x, x)|; the root of the sum of squares if kappa(x, x) is zero.

    The adjacency of a graph without loops has zeros there, and its signed eigenvalues sum to zero.
    """
    total = float(operator.p @ operator.diagonal().abs())
    if total == 0:
        K = operator.block()
        values, weights = (K, torch.outer(operator.p, operator.p)) if not K.is_sparse else _entries(K, operator.p)
        total = float((weights * values.to(weights).square()).sum().sqrt())
    return total or 1.0


def _entries(K: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Return the entries of a sparse matrix and the probability of each."""
    K = K.coalesce()
    i, j = K.indices()
    return K.values(), p[i] * p[j]


def noise_floor(operator: Operator) -> float:
    """Return roughly the standard error of a judged eigenvalue that is zero: the size of the kernel over n."""
    return float(operator.p.square() @ operator.diagonal().abs())


def smallest_eigenvalue(operator: Operator) -> float:
    """Return a lower bound on the eigenvalues of T estimated from its points, used to choose the shift.

    It is the smallest eigenvalue of T over the points minus the noise floor: more points may have a smaller one.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    n, root = len(operator.x), operator.p.sqrt()[:, None]
    inverse = torch.where(root > 0, 1 / root, 0.0)  # functions are not determined at points of weight zero

    def apply(v: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        f = torch.from_numpy(v.reshape(n, -1)).to(root) * inverse
        return (root * operator.apply(f)).cpu().numpy()

    if n <= 1024:
        matrix = torch.from_numpy(apply(np.eye(n)))
        lowest = float(torch.linalg.eigvalsh((matrix + matrix.T) / 2)[0])
    else:
        symmetric = LinearOperator((n, n), matvec=apply, matmat=apply, dtype=np.float64)
        # The estimate converges from above, up to the tolerance, which is subtracted.
        value = float(eigsh(symmetric, k=1, which="SA", tol=1e-3, return_eigenvectors=False, v0=np.ones(n))[0])
        lowest = value - 1e-3 * abs(value)
    # Rounding makes the zeros of a positive kernel negative; that requires no shift.
    return lowest - noise_floor(operator) if lowest < -1e-9 * float(operator.diagonal().abs().max()) else 0.0


def groups(eigenvalues: Tensor, n: int, components: int = 0) -> list[list[int]]:
    """Return groups of components whose eigenvalues n points cannot separate.

    Adjacent eigenvalues belong together if they differ by less than 2 / sqrt(n) of the larger one (the standard error
    of an eigenvalue is of the order of sqrt(2 / n)), but at least 1 %. Within a group only the space is determined: its
    functions may come in any rotation.

    A graph of neighbours has its eigenvalues close together just below 1, so those of the Laplacian, 1 - mu, are
    compared. The eigenvalue 1 occurs once per connected component.
    """
    tolerance = max(0.01, 2 / math.sqrt(n))
    found: list[list[int]] = []
    values = (1 - eigenvalues if components else eigenvalues).tolist()
    for j, value in enumerate(values):
        close = j > 0 and abs(values[j - 1] - value) <= tolerance * max(abs(values[j - 1]), abs(value))
        if found and (close or j < components):
            found[-1].append(j)
        else:
            found.append([j])
    return found


def warn_of_weak_alpha(objective: nn.Module, eigenvalues: Tensor, floor: float, unit: float) -> None:
    """Warn if a fixed alpha cannot order the modes above the noise, and say which value could."""
    if not isinstance(objective, NeuralEF) or not objective.ordered:
        return
    real = eigenvalues[eigenvalues.abs() > floor] / unit
    needed = objective.ordering_threshold(real)
    alpha = objective.strength(len(eigenvalues))
    if alpha < needed:
        warnings.warn(
            f"alpha = {alpha:.3g} is too small for this kernel: to order the {len(real)} modes above the noise floor "
            f"{floor:.2g}, alpha must exceed {needed:.3g} (in units of the largest eigenvalue), or features repeat "
            'each other; use objective "auto", "neuralef-ratio" or "neuralef-shifted", or a larger alpha.',
            UserWarning,
            stacklevel=3,
        )
