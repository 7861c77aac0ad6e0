r"""Kernels as relations: blocks of a Gram matrix, evaluated on demand.

A kernel kappa(x, x') and a measure p have eigenfunctions

    E_{x' ~ p} kappa(x, x') phi_j(x') = mu_j phi_j(x),        E_p[phi_i phi_j] = delta_ij,

and the objectives find them from blocks K_bb' = kappa(x_b, x'_b') between two independent draws from p. A block is made
for one step and discarded; nothing of size n x n is stored.

    blocks = KernelBlocks(x, "rbf", batch_size=1024, kernel_params={"length_scale": 0.3})
    x, x_plus, K = blocks.batch(step=0)
    loss = objective(*network(torch.cat([x, x_plus]))[1].split([len(x), len(x_plus)]), K)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eigenmap.core.batch import Batch
from eigenmap.core.errors import EigenmapError
from eigenmap.core.sparse import sparse_coo
from eigenmap.core.tensors import as_tensor

Kernel = Callable[[Tensor, Tensor], Tensor]
"""Kernel of all pairs of rows: (B, ...), (B', ...) -> (B, B')."""

Matrix = Any
"""A Gram matrix: a torch tensor (dense or sparse), a NumPy array or a scipy sparse matrix."""

LengthScale = float | Sequence[float]
"""One number for all features, or one per feature."""

PROBE = 64
"""Number of points on which a kernel is tested before use."""
ROUNDING = {torch.float64: 1e-5}
"""Tolerated asymmetry of kappa relative to its largest entry; 10,000 roundings in other precisions.

Distances by matrix product lose digits if points are far apart relative to the length scale.
"""


def rbf(x: Tensor, y: Tensor, length_scale: LengthScale = 1.0) -> Tensor:
    """exp(-|x - y|^2 / (2 length_scale^2)), the Gaussian kernel."""
    x, y = _scaled(x, y, length_scale)
    # |x|^2 + |y|^2 - 2 x.y loses digits far from the origin, so the points are centred first.
    origin = y.mean(0)
    x, y = x - origin, y - origin
    squares = x.square().sum(1)[:, None] + y.square().sum(1)
    return torch.addmm(squares, x, y.T, alpha=-2).clamp_min_(0).mul_(-0.5).exp_()


def matern(x: Tensor, y: Tensor, length_scale: LengthScale = 1.0, nu: float = 1.5) -> Tensor:
    """Matern kernel of smoothness nu = 0.5, 1.5, 2.5 or infinity (the Gaussian kernel)."""
    if nu == math.inf:
        return rbf(x, y, length_scale)
    if nu not in (0.5, 1.5, 2.5):
        raise EigenmapError(f"The Matern kernel is available for nu = 0.5, 1.5, 2.5 and inf, not {nu!r}.")
    x, y = _scaled(x, y, length_scale)
    # Not by matrix product: the square root would turn the rounding of a zero distance into 3e-4.
    r = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist") * math.sqrt(2 * nu)
    polynomial = {0.5: torch.ones_like(r), 1.5: 1 + r, 2.5: 1 + r + r.square() / 3}[nu]
    return polynomial * torch.exp(-r)


def laplacian(x: Tensor, y: Tensor, length_scale: LengthScale = 1.0) -> Tensor:
    """exp(-|x - y|_1 / length_scale), with the sum of absolute differences."""
    return torch.exp(-torch.cdist(*_scaled(x, y, length_scale), p=1.0))


def polynomial(x: Tensor, y: Tensor, degree: int = 3, gamma: float | None = None, coef0: float = 1.0) -> Tensor:
    """(gamma x.y + coef0)^degree; default gamma is 1 / number of features."""
    for name, value in {"degree": degree, "gamma": 1.0 if gamma is None else gamma, "coef0": coef0}.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            raise EigenmapError(f"{name} of the polynomial kernel must be a number, not {value!r}.")
    if not degree >= 0:
        raise EigenmapError(f"degree of the polynomial kernel must be 0 or more, not {degree!r}.")
    return (x @ y.T * (1 / x.shape[1] if gamma is None else gamma) + coef0).pow(degree)


def cosine(x: Tensor, y: Tensor) -> Tensor:
    """x.y / (|x| |y|), and 0 if a point is the origin."""
    return torch.nn.functional.normalize(x, dim=1) @ torch.nn.functional.normalize(y, dim=1).T


def _scaled(x: Tensor, y: Tensor, length_scale: LengthScale) -> tuple[Tensor, Tensor]:
    try:  # checked on the CPU, to avoid waiting for a device
        scale = torch.as_tensor(length_scale, dtype=x.dtype)
    except (TypeError, ValueError, RuntimeError):
        scale = torch.tensor(torch.nan)
    fits = scale.ndim <= 1 and scale.numel() in (1, x.shape[1])
    if not fits or not bool((scale > 0).all() and scale.isfinite().all()):
        raise EigenmapError(
            f"length_scale must be a positive number, or one for each of the {x.shape[1]} features, "
            f"not {length_scale!r}."
        )
    return x / scale.to(x.device), y / scale.to(x.device)


KERNELS: dict[str, Callable[..., Tensor]] = {
    "rbf": rbf,
    "matern": matern,
    "laplacian": laplacian,
    "polynomial": polynomial,
    "cosine": cosine,
}
"""Kernels by name."""


def kernel_function(kernel: str | Kernel, kernel_params: Mapping[str, Any] | None = None) -> Kernel:
    """Return the named kernel, or the given function, with parameters applied.

    Example:
        >>> kernel_function("rbf", {"length_scale": 0.3})(torch.zeros(2, 1), torch.zeros(3, 1)).shape
        torch.Size([2, 3])

    """
    params = dict(kernel_params or {})
    if callable(kernel):
        return partial(kernel, **params) if params else kernel
    if kernel not in KERNELS:
        raise EigenmapError(f"Unknown kernel {kernel!r}; choose one of {', '.join(KERNELS)} or give a function.")
    allowed = list(signature(KERNELS[kernel]).parameters)[2:]
    unknown = sorted(set(params) - set(allowed))
    if unknown:
        takes = f"it takes {', '.join(allowed)}" if allowed else "it takes none"
        raise EigenmapError(f"The kernel {kernel} has no parameter {', '.join(unknown)}; {takes}.")
    return partial(KERNELS[kernel], **params)


class KernelBlocks:
    """Blocks of a kernel between random points, as a function of the step.

    `batch(step)` depends only on the seed and the step. It draws `batch_size` points x and, independently, as many
    points x_plus, each with its probability, and evaluates the kernel between them: unbiased for any n, in memory that
    does not depend on n. With `batch_size=None` every batch contains all points on both sides, which gives exact
    expectations for the n points.

    Several processes divide the draws of a batch; each has the block between its own x and its own x_plus, and the
    objectives average the blocks.

    Args:
        x: (n, ...) points, a tensor or an array, seen by the network. Named kernels take vectors (n, d).
        kernel: a name of `KERNELS`; a function of two batches of points that returns the (B, B') matrix of kappa,
            positive or indefinite; or a precomputed Gram matrix (n, n), dense or sparse, of which x are the features.
        batch_size: points on each side of a block, over all processes together; None for all n.
        seed: seed of the draws.
        kernel_params: parameters of a named kernel or keywords for a function.
        weights: (n,) measure p up to a factor; default uniform.
        device: device on which blocks are made.
        rank: number of this process.
        world_size: number of processes.

    Example:
        >>> blocks = KernelBlocks(torch.rand(10_000, 2), "rbf", batch_size=512)
        >>> blocks.batch(step=0).kernel.shape
        torch.Size([512, 512])

    """

    def __init__(
        self,
        x: Tensor | np.ndarray[Any, Any],
        kernel: str | Kernel | Matrix = "rbf",
        batch_size: int | None = None,
        seed: int = 0,
        *,
        kernel_params: Mapping[str, Any] | None = None,
        weights: Tensor | np.ndarray[Any, Any] | None = None,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.device = torch.device(device)
        self.x = _points(x).to(self.device)
        named = isinstance(kernel, str)
        if named and self.x.ndim != 2:
            raise EigenmapError(f"The kernel {kernel} takes vectors: x must be (n, d), not {tuple(self.x.shape)}.")
        self.gram: Tensor | None = None
        if named or callable(kernel):
            self.kappa = kernel_function(kernel, kernel_params)
            self._probe(symmetric=named)
        else:
            self.gram = gram_matrix(kernel, len(self.x)).to(self.device)
        _check_batch_size(batch_size, len(self.x), world_size, weighted=weights is not None)
        self.batch_size, self.seed, self.rank, self.world_size = batch_size, seed, rank, world_size
        self._cumulative = None if weights is None else _cumulative(weights, len(self.x))

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.x)

    def batch(self, step: int) -> Batch:
        """Make this process's part of batch number `step`: points, points, and the kernel between them."""
        if self.batch_size is None:
            everything = torch.arange(len(self.x), device=self.device)
            return self.between(everything, everything)
        rows, columns = (side.chunk(self.world_size)[self.rank] for side in self.draw(step))
        return self.between(rows, columns)

    def between(self, rows: Tensor, columns: Tensor) -> Batch:
        """Make the block between two lists of point numbers."""
        x, x_plus = self.x[rows], self.x[columns]
        if self.gram is None:
            return Batch(x, x_plus, kernel_block(self.kappa, x, x_plus))
        return Batch(x, x_plus, self.gram.index_select(0, rows).index_select(1, columns))

    def draw(self, step: int) -> tuple[Tensor, Tensor]:
        """Draw the point numbers on both sides of the global batch."""
        count = 2 * (len(self.x) if self.batch_size is None else self.batch_size)
        entropy = np.random.SeedSequence((self.seed % 2**64, step))
        generator = torch.Generator().manual_seed(int(entropy.generate_state(1)[0]))
        if self._cumulative is None:
            drawn = torch.randint(len(self.x), (count,), generator=generator)
        else:
            # Rounding may put the largest number above the last sum.
            uniform = torch.rand(count, generator=generator, dtype=torch.float64) * self._cumulative[-1]
            drawn = torch.searchsorted(self._cumulative, uniform, right=True).clamp_max_(len(self.x) - 1)
        first, second = drawn.to(self.device).chunk(2)
        return first, second

    def _probe(self, symmetric: bool) -> None:
        """Test the kernel on two sides of different length and, unless symmetry is known, with the sides exchanged."""
        y = evenly(self.x, PROBE + 1)
        x = y[:-1]
        try:
            K = kernel_block(self.kappa, x, y)
            exchanged = K.T if symmetric else kernel_block(self.kappa, y, x)
        except EigenmapError:
            raise
        except Exception as error:
            raise EigenmapError(f"The kernel fails on {len(x)} and {len(y)} points: {error}") from error
        if not bool(K.isfinite().all()):
            raise EigenmapError("The kernel returns NaN or infinity; check its parameters and the scale of the points.")
        _check_symmetric(K, exchanged.T)


def _points(x: Any) -> Tensor:
    """Return the points as a floating-point tensor; raise if some are not finite."""
    points = as_tensor(x, "x")
    if points.ndim < 2 or len(points) < 2:
        raise EigenmapError(f"x must be at least 2 points, (n, d), not an array of shape {tuple(points.shape)}.")
    points = points if points.is_floating_point() else points.to(torch.get_default_dtype())
    bad = ~points.flatten(1).isfinite().all(1)
    if bool(bad.any()):
        raise EigenmapError(
            f"{int(bad.sum())} of the {len(points)} points contain NaN or infinity, the first of them number "
            f"{int(bad.int().argmax())}; remove or impute them."
        )
    return points


def gram_matrix(kernel: Matrix, n: int) -> Tensor:
    """Return a precomputed Gram matrix as a tensor, dense or sparse COO, after checking all of it."""
    if hasattr(kernel, "tocoo"):  # scipy sparse matrices, without importing scipy
        coo = kernel.tocoo()
        indices = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
        gram = sparse_coo(indices, torch.as_tensor(coo.data), coo.shape)
    else:
        values = kernel.to_numpy() if hasattr(kernel, "to_numpy") else kernel  # pandas and polars frames
        read_only = isinstance(values, np.ndarray) and not values.flags.writeable
        try:
            plain = isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
            gram = (as_tensor if plain else torch.as_tensor)(values.copy() if read_only else values)
        except (TypeError, ValueError, RuntimeError) as error:
            raise EigenmapError(f"The Gram matrix cannot be read as a matrix of numbers: {error}") from error
    if tuple(gram.shape) != (n, n):
        raise EigenmapError(f"A Gram matrix of {n} points must be {n} x {n}, not {' x '.join(map(str, gram.shape))}.")
    if gram.is_complex():
        raise EigenmapError("The Gram matrix must contain real numbers, not complex ones; give its real part.")
    gram = gram if gram.is_floating_point() else gram.to(torch.get_default_dtype())
    gram = gram if gram.layout == torch.strided else gram.to_sparse().coalesce()
    entries = gram.values() if gram.is_sparse else gram
    if not bool(entries.isfinite().all()):
        raise EigenmapError("The Gram matrix contains NaN or infinity.")
    if gram.is_sparse:
        difference = (gram - gram.transpose(0, 1)).coalesce().values()
        _check_symmetric(difference, torch.zeros_like(difference), largest=entries)
    else:
        for start in range(0, n, 1024):  # in strips: a transposed copy might not fit into memory
            strip = slice(start, start + 1024)
            _check_symmetric(gram[strip], gram[:, strip].T)
    return gram


def evenly(x: Tensor, count: int) -> Tensor:
    """Return about `count` evenly spaced rows of x including the first and the last, since data is often sorted."""
    return x[torch.linspace(0, len(x) - 1, min(count, len(x)), dtype=torch.float64).round().long().to(x.device)]


def kernel_block(kernel: Kernel, x: Tensor, y: Tensor) -> Tensor:
    """Evaluate the kernel between the rows of x and y; raise if it does not return the right matrix."""
    K, rows, columns = kernel(x, y), len(x), len(y)
    if not isinstance(K, Tensor) or tuple(K.shape) != (rows, columns):
        found = f"shape {tuple(K.shape)}" if isinstance(K, Tensor) else type(K).__name__
        raise EigenmapError(
            f"The kernel of {rows} and {columns} points must return a torch tensor of shape ({rows}, {columns}), "
            f"not {found}."
        )
    return K if K.is_floating_point() else K.to(torch.get_default_dtype())


def _check_symmetric(K: Tensor, transposed: Tensor, largest: Tensor | None = None) -> None:
    """Raise unless the two agree up to rounding, relative to the largest entry."""
    if K.numel() == 0:
        return
    scale = float((K if largest is None else largest).abs().max())
    difference = float((K - transposed).abs().max())
    if difference > ROUNDING.get(K.dtype, 1e4 * torch.finfo(K.dtype).eps) * scale:
        raise EigenmapError(
            f"The kernel is not symmetric: kappa(x, y) and kappa(y, x) differ by up to {difference:.3g}; "
            "use their mean, or another kernel."
        )


def _check_batch_size(batch_size: int | None, n: int, world_size: int, *, weighted: bool) -> None:
    if batch_size is None:
        if world_size > 1 or weighted:
            raise EigenmapError(
                "Using all points as one batch requires one process and equal weights; give batch_size."
            )
    elif batch_size < 2 * world_size or batch_size % world_size:
        raise EigenmapError(
            f"The batch size {batch_size} must be a multiple of the number of processes, which is {world_size}, "
            "and leave at least 2 points for each."
        )
    elif batch_size > n:
        raise EigenmapError(
            f"The batch size {batch_size} is larger than the number of points, which is {n}; "
            "give None to use all of them."
        )


def _cumulative(weights: Any, n: int) -> Tensor:
    """Return cumulative weights in float64, precise enough for a hundred million of them."""
    w = as_tensor(weights, "The weights").double().cpu()
    if w.shape != (n,) or not bool(w.isfinite().all() and (w >= 0).all() and (w > 0).any()):
        raise EigenmapError(f"The weights must be {n} numbers, one for each point, none negative and not all zero.")
    return w.cumsum(0)
