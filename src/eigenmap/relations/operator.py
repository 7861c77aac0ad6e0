r"""Integral operator of a kernel over reference points, applied without an n x n matrix.

    (T f)(x) = sum_i p_i kappa(x, x_i) f(x_i)

Its eigenfunctions approximate those of the kernel. `KernelOperator` has the kernel as a function and can be evaluated
at any x; `MatrixOperator` has a Gram matrix and is limited to its own points unless it has an extension to others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.relations.kernel import Kernel, kernel_block

ENTRIES = 2**23
"""Maximum number of kernel entries in memory at a time: 64 MB in float64."""


class Operator(Protocol):
    """Interface for alignment: points, their measure p, and T at the points and possibly elsewhere."""

    x: Tensor
    p: Tensor
    components: int
    """Number of components of a graph in which T f averages over neighbours, each with eigenvalue 1; else 0."""

    @property
    def extends(self) -> bool:
        """Whether `at` accepts points other than the reference points."""

    def apply(self, f: Tensor) -> Tensor:
        """Return T f at the reference points, from f (n, k) there."""

    def at(self, z: Tensor, f: Tensor) -> Tensor:
        """Return T f at the points z, from f (n, k) at the reference points."""

    def block(self) -> Tensor:
        """Return the kernel between all reference points, for training on all of them at once."""

    def diagonal(self) -> Tensor:
        """Return kappa(x_i, x_i) (n,); its mean is the sum of all eigenvalues, if that exists."""

    def restrict(self, rows: Tensor) -> Operator:
        """Return T over some of the points."""


def uniform(n: int) -> Tensor:
    """Return equal probabilities in float64."""
    return torch.full((n,), 1 / n, dtype=torch.float64)


class KernelOperator:
    """T of a kernel given as a function of two batches of points.

    Args:
        x: (n, d) reference points.
        kernel: (B, d), (B', d) -> (B, B').
        p: (n,) probabilities of the points; default uniform.

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
        """Return T f at the reference points."""
        return self.at(self.x, f)

    def at(self, z: Tensor, f: Tensor) -> Tensor:
        """Return T f at any points, computed in strips."""
        weighted = self.p[:, None] * f
        strips = torch.split(z, max(1, ENTRIES // len(self.x)))
        return torch.cat([kernel_block(self.kernel, strip, self.x).to(weighted) @ weighted for strip in strips])

    def block(self) -> Tensor:
        """Return the kernel between all reference points."""
        return kernel_block(self.kernel, self.x, self.x).to(self.x)

    def diagonal(self) -> Tensor:
        """Return kappa(x_i, x_i), taken from small blocks."""
        return torch.cat([kernel_block(self.kernel, part, part).diagonal() for part in torch.split(self.x, 256)]).to(
            self.p
        )

    def restrict(self, rows: Tensor) -> KernelOperator:
        """Return T over some of the points."""
        return KernelOperator(self.x[rows], self.kernel, self.p[rows] / self.p[rows].sum())


class MatrixOperator:
    """T of a Gram matrix, dense or sparse.

    Args:
        x: (n, d) features of the points.
        gram: (n, n) kernel between them.
        p: (n,) probabilities of the points; default uniform.
        extension: (z, f) -> T f at other points, if available.

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
        """Return T f at the points, one sparse or dense product."""
        return self.gram.to(f.dtype) @ (self.p[:, None] * f)

    def at(self, z: Tensor, f: Tensor) -> Tensor:
        """Return T f at other points."""
        if self.extension is None:
            raise EigenmapError("A Gram matrix cannot be evaluated at points that are not in it.")
        return self.extension(z, f)

    def block(self) -> Tensor:
        """Return the matrix."""
        return self.gram

    def diagonal(self) -> Tensor:
        """Return K_ii."""
        if not self.gram.is_sparse:
            return self.gram.diagonal().to(self.p)
        gram = self.gram.coalesce()
        i, j = gram.indices()
        return torch.zeros_like(self.p).index_add_(0, i[i == j], gram.values()[i == j].to(self.p))

    def restrict(self, rows: Tensor) -> MatrixOperator:
        """Return T over some of the points, without the extension."""
        gram = self.gram.index_select(0, rows).index_select(1, rows)
        return MatrixOperator(self.x[rows], gram, self.p[rows] / self.p[rows].sum())
