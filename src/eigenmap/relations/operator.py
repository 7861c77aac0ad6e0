r"""The integral operator of a kernel over reference points, applied without a matrix of the size n x n.

    (T f)(x) = sum_i p_i kappa(x, x_i) f(x_i)

Its eigenfunctions are those of the kernel as far as the points show them. `KernelOperator` has the kernel as a function
and can be asked at any x; `MatrixOperator` has a Gram matrix, and knows its own points only unless it is told how to
extend a function to others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.relations.kernel import Kernel, kernel_block

ENTRIES = 2**23
"""Entries of the kernel that are held at a time: 64 MB in float64."""


class Operator(Protocol):
    """What alignment asks of a relation: points, their measure p, and T at the points and, maybe, elsewhere."""

    x: Tensor
    p: Tensor
    components: int
    """Of a graph in which T f is the mean of f over neighbours: its parts, each with an eigenvalue 1; else 0."""

    @property
    def extends(self) -> bool:
        """Whether `at` can be asked about points that are not reference points."""

    def apply(self, f: Tensor) -> Tensor:
        """T f at the reference points, from f (n, k) there."""

    def at(self, z: Tensor, f: Tensor) -> Tensor:
        """T f at the points z, from f (n, k) at the reference points."""

    def block(self) -> Tensor:
        """The kernel between all reference points, for training on all of them at once."""

    def diagonal(self) -> Tensor:
        """kappa(x_i, x_i) (n,); its mean is the sum of all eigenvalues, where they have one."""

    def restrict(self, rows: Tensor) -> Operator:
        """T over some of the points only."""


def uniform(n: int) -> Tensor:
    """Equal probabilities in float64."""
    return torch.full((n,), 1 / n, dtype=torch.float64)


class KernelOperator:
    """T of a kernel that is a function of two batches of points.

    Args:
        x: (n, d) reference points.
        kernel: (B, d), (B', d) -> (B, B').
        p: (n,) their probabilities; uniform unless given.

    Example:
        >>> T = KernelOperator(torch.randn(500, 2).double(), rbf)
        >>> T.at(torch.zeros(3, 2).double(), torch.ones(500, 1).double()).shape
        torch.Size([3, 1])

    """

    extends = True
    components = 0

    def __init__(self, x: Tensor, kernel: Kernel, p: Tensor | None = None) -> None:
        self.x, self.kernel = x, kernel
        self.p = (uniform(len(x)) if p is None else p).to(x)

    def apply(self, f: Tensor) -> Tensor:
        """T f at the reference points."""
        return self.at(self.x, f)

    def at(self, z: Tensor, f: Tensor) -> Tensor:
        """T f at any points, strip by strip."""
        weighted = self.p[:, None] * f
        strips = torch.split(z, max(1, ENTRIES // len(self.x)))
        return torch.cat([kernel_block(self.kernel, strip, self.x).to(weighted) @ weighted for strip in strips])

    def block(self) -> Tensor:
        """The kernel between all reference points."""
        return kernel_block(self.kernel, self.x, self.x).to(self.x)

    def diagonal(self) -> Tensor:
        """kappa(x_i, x_i), from small blocks, of which nothing else counts."""
        return torch.cat([kernel_block(self.kernel, part, part).diagonal() for part in torch.split(self.x, 256)]).to(
            self.p
        )

    def restrict(self, rows: Tensor) -> KernelOperator:
        """T over some of the points only."""
        return KernelOperator(self.x[rows], self.kernel, self.p[rows] / self.p[rows].sum())


class MatrixOperator:
    """T of a Gram matrix, dense or sparse.

    Args:
        x: (n, d) features of the points.
        gram: (n, n) the kernel between them.
        p: (n,) their probabilities; uniform unless given.
        extension: (z, f) -> T f at other points, where something is known about them.

    """

    components = 0

    def __init__(
        self,
        x: Tensor,
        gram: Tensor,
        p: Tensor | None = None,
        extension: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        self.x, self.gram, self.extension = x, gram, extension
        self.p = (uniform(len(x)) if p is None else p).to(x)

    @property
    def extends(self) -> bool:
        """Whether there is an extension."""
        return self.extension is not None

    def apply(self, f: Tensor) -> Tensor:
        """T f at the points, one sparse or dense product."""
        return self.gram.to(f.dtype) @ (self.p[:, None] * f)

    def at(self, z: Tensor, f: Tensor) -> Tensor:
        """T f at other points."""
        if self.extension is None:
            raise EigenmapError("A Gram matrix says nothing about points that are not in it.")
        return self.extension(z, f)

    def block(self) -> Tensor:
        """The matrix itself."""
        return self.gram

    def diagonal(self) -> Tensor:
        """K_ii."""
        if not self.gram.is_sparse:
            return self.gram.diagonal().to(self.p)
        gram = self.gram.coalesce()
        i, j = gram.indices()
        return torch.zeros_like(self.p).index_add_(0, i[i == j], gram.values()[i == j].to(self.p))

    def restrict(self, rows: Tensor) -> MatrixOperator:
        """T over some of the points only; what was known about others is left behind."""
        gram = self.gram.index_select(0, rows).index_select(1, rows)
        return MatrixOperator(self.x[rows], gram, self.p[rows] / self.p[rows].sum())
