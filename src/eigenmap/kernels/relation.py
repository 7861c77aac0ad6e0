"""Interpretation of an estimator's `kernel` parameter: operators for alignment and batches for training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eigenmap.core.batch import Batch
from eigenmap.core.errors import EigenmapError
from eigenmap.relations.kernel import KERNELS, PROBE, Kernel, KernelBlocks, evenly, gram_matrix, kernel_function
from eigenmap.relations.neighbours import NeighbourGraph
from eigenmap.relations.operator import KernelOperator, MatrixOperator, Operator
from eigenmap.training.loop import Relation

NEIGHBOURS = "neighbours"
SPELLINGS = {"neighbors": NEIGHBOURS}
PRECOMPUTED = "precomputed"


@dataclass(frozen=True)
class KernelRelation:
    """Points, their measure and their relation: exactly one of `kernel`, `gram` and `graph`.

    Attributes:
        x: (n, d) points, as given by the user.
        p: (n,) probabilities.
        weighted: whether the probabilities are unequal.
        total: sum of the weights that became probabilities; n without weights.
        kernel: function of two batches of points.
        gram: matrix between all points.
        graph: graph of nearest neighbours.

    """

    x: Tensor
    p: Tensor
    weighted: bool
    total: float
    kernel: Kernel | None = None
    gram: Tensor | None = None
    graph: NeighbourGraph | None = None

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.x)

    def operator(self, rows: Tensor | None = None) -> Operator:
        """Return T in float64 over all points, or over the points `rows` if the kernel is a function."""
        if self.graph is not None:
            return self.graph.operator()
        if self.gram is not None:
            return MatrixOperator(self.x.double(), self.gram.double(), self.p)
        assert self.kernel is not None
        if rows is None:
            return KernelOperator(self.x.double(), self.kernel, self.p)
        return KernelOperator(self.x[rows].double(), self.kernel, self.p[rows] / self.p[rows].sum())

    def batches(self, rows: Tensor | None, batch_size: int, seed: int, dtype: torch.dtype) -> Relation:
        """Return small random blocks of the points `rows` (None: all); edges for a graph."""
        if self.graph is not None:
            return self.graph
        x, p = (self.x, self.p) if rows is None else (self.x[rows], self.p[rows])
        kernel: Any = self.kernel
        weighted = self.weighted
        if self.gram is not None:  # not copied: points outside the rows are never drawn
            x, kernel, weighted = self.x, self.gram, weighted or rows is not None
            p = p if rows is None else torch.zeros_like(self.p).index_copy(0, rows, p)
        weights = p if weighted else None
        return Blocks(
            KernelBlocks(x.to(dtype), kernel, min(batch_size, len(x)), seed, weights=weights, device=x.device)
        )


class Blocks:
    """Blocks of a kernel between random points and themselves: all pairs of a batch count, and signs are kept.

    A block between two independent draws is unbiased but has a quarter of the pairs for the same number of points; the
    pairs of a point with itself only add a multiple of the identity, which changes no eigenfunction.
    """

    def __init__(self, blocks: KernelBlocks) -> None:
        self.blocks = blocks

    def batch(self, step: int) -> Batch:
        """Return the block of this step, a function of the seed and the step."""
        rows, _ = self.blocks.draw(step)
        x, _, kernel = self.blocks.between(rows, rows)
        return Batch(x, x, kernel)


def make_relation(
    x: Tensor,
    weights: Tensor | None,
    kernel: Any,
    kernel_params: Mapping[str, Any] | None,
    gram: Any,
    seed: int,
    edges: int,
) -> KernelRelation:
    """Build a relation from the parameters of an estimator; `gram` is the matrix of a precomputed kernel."""
    n = len(x)
    p = torch.full((n,), 1 / n, dtype=torch.float64) if weights is None else (weights / weights.sum()).double()
    p = p.to(x.device)
    weighted = weights is not None and bool((weights != weights[0]).any())
    total = float(n if weights is None else weights.sum())
    if isinstance(kernel, str) and kernel == PRECOMPUTED:
        return KernelRelation(x, p, weighted, total, gram=gram_matrix(gram, n).to(x.device))
    if isinstance(kernel, str) and SPELLINGS.get(kernel, kernel) == NEIGHBOURS:
        if weighted:
            raise EigenmapError('kernel="neighbours" weights points by their degree and takes no sample_weight.')
        params = neighbour_params(kernel_params)
        count = params.get("n_neighbors", min(15, n - 1))
        graph = NeighbourGraph(x.double(), count, seed=seed, batch_size=edges)
        return KernelRelation(x, graph.operator().p, True, total, graph=graph)
    if not callable(kernel) and kernel not in KERNELS:
        known = ", ".join([*KERNELS, PRECOMPUTED, NEIGHBOURS])
        raise EigenmapError(f"Unknown kernel {kernel!r}; choose one of {known} or give a function.")
    return KernelRelation(x, p, weighted, total, kernel=tried_kernel(x, kernel, kernel_params))


def tried_kernel(x: Tensor, kernel: Any, kernel_params: Mapping[str, Any] | None) -> Kernel:
    """Return the kernel as a function, tested on some of the points; raise an error that explains a failure."""
    function = kernel_function(kernel, kernel_params)
    # The first point twice, since there may be no other.
    KernelBlocks(torch.cat([x[:1], evenly(x, PROBE)]).double(), kernel, kernel_params=kernel_params)
    return function


def neighbour_params(kernel_params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Validate the parameters of the neighbour graph."""
    params = dict(kernel_params or {})
    unknown = sorted(set(params) - {"n_neighbors", "laplacian"})
    if unknown:
        raise EigenmapError(f"The kernel neighbours has no {', '.join(unknown)}; it takes n_neighbors, laplacian.")
    return params


def one_row_each(x: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return distinct points in sorted order with their summed weights, without points of weight zero.

    A fit to few points then depends neither on their order nor on whether a point is repeated or has weight two.
    """
    weights = torch.ones(len(x), dtype=torch.float64) if weights is None else weights.double().cpu()
    kept = weights > 0
    unique, inverse = torch.unique(x.cpu()[kept], dim=0, return_inverse=True)
    return unique.to(x.device), torch.zeros(len(unique)).double().index_add_(0, inverse, weights[kept])
