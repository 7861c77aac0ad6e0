"""Kernels with known eigenfunctions, the truth for every method.

A problem is a kernel kappa, a measure p to draw points from, and the leading eigenpairs of

    E_{x' ~ p} kappa(x, x') phi_j(x') = mu_j phi_j(x)

in float64, the functions at quadrature nodes of p, which no method sees: with the nodes' weights, inner products there
are those of L2(p) up to rounding (sampled up to 0.02 for the block model, whose points have random features).

    problem = PROBLEMS["rbf-1d-0.3"]
    sample = problem.sample(512, seed=0)
    sample.x, sample.gram                      # all a method may look at
    problem.nodes, problem.weights, problem.phi, problem.mu
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.special import eval_hermite, lpmv
from torch import Generator, Tensor

from eigenmap.relations.kernel import Kernel, kernel_function, polynomial

SAME = 0.05
"""Eigenvalues with a smaller relative gap are one group: a few hundred points cannot tell their functions apart."""


MORE = 100
"""Number of known modes beyond those requested; the centred kernel mixes them all."""


@dataclass(frozen=True)
class Sample:
    """Input of a method: points and the dense kernel between them; `cross` is for methods that keep points."""

    x: Tensor  # (n, d)
    gram: Tensor  # (n, n)
    cross: Callable[[Tensor], Tensor]
    """(m, d) -> (m, n), the kernel between new points and these."""


@dataclass(frozen=True)
class Truth:
    """The leading eigenpairs; more than requested, since a group may extend beyond the last one."""

    nodes: Tensor  # (m, d)
    weights: Tensor  # (m,), sum 1
    mu: Tensor  # (more than k,)
    phi: Tensor  # (m, more than k), orthonormal in the weights

    def groups(self, k: int, same: float = SAME) -> list[list[int]]:
        """Return the numbers of the modes in each group, from 0; the last group may extend beyond the k requested."""
        groups = [[0]]
        for i, j in pairwise(range(len(self.mu))):
            close = float(self.mu[i] - self.mu[j]) < same * abs(float(self.mu[i]))
            if not close and j >= k:
                break
            groups = [*groups[:-1], [*groups[-1], j]] if close else [*groups, [j]]
        return groups

    def centred(self) -> Truth:
        r"""Return the eigenpairs of kappa - E_x kappa - E_x' kappa + E_xx' kappa, the target of centring methods.

        In the functions phi_l - m_l, m_l = E[phi_l], with their Gram matrix G = I - m m^T, the eigenproblem is
        diag(mu) G c = lambda c, exact up to the modes that are left out.
        """
        m = self.weights @ self.phi
        size, basis = torch.linalg.eigh(torch.eye(len(m)).to(m) - torch.outer(m, m))
        root = (basis * size.clamp_min(0).sqrt()) @ basis.T
        values, vectors = torch.linalg.eigh(root @ (self.mu[:, None] * root))
        values, vectors = values.flip(0)[:-1], vectors.flip(1)[:, :-1]
        phi = (self.phi - m) @ (self.mu[:, None] * (root @ vectors))
        size = (self.weights @ phi.square()).sqrt().clamp_min(1e-300)
        return Truth(self.nodes, self.weights, values, phi / size)


@dataclass(frozen=True)
class Problem:
    """A kernel, a measure, and their known eigenpairs."""

    name: str
    title: str
    n_components: int
    draw: Callable[[int, Generator], Tensor]
    solve: Callable[[], Truth]
    kernel: str | Kernel = "rbf"
    kernel_params: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def truth(self) -> Truth:
        return self.solve()

    @property
    def kappa(self) -> Kernel:
        return kernel_function(self.kernel, self.kernel_params)

    def sample(self, n: int, seed: int) -> Sample:
        """`n` points of p and the kernel between them."""
        x = self.draw(n, torch.Generator().manual_seed(seed))
        return Sample(x, self.kappa(x, x), lambda new: self.kappa(new, x))


# The Gaussian kernel on an interval


def interval(n: int, generator: Generator, half: float = 2.0) -> Tensor:
    return half * (2 * torch.rand(n, 1, generator=generator, dtype=torch.float64) - 1)


def quadrature_truth(kappa: Kernel, nodes: Tensor, weights: Tensor, count: int) -> Truth:
    """Eigenpairs of the kernel by the symmetric eigenproblem W^1/2 K W^1/2 at quadrature nodes."""
    root = weights.sqrt()
    mu, vectors = torch.linalg.eigh(root[:, None] * kappa(nodes, nodes) * root)
    mu, phi = mu.flip(0)[:count], vectors.flip(1)[:, :count] / root[:, None]
    return Truth(nodes, weights, mu, phi)


def legendre(count: int, half: float = 2.0) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the uniform measure on [-half, half], exact for polynomials of degree 2 count - 1."""
    x, w = np.polynomial.legendre.leggauss(count)
    return torch.from_numpy(half * x)[:, None], torch.from_numpy(w / 2)


def rbf_interval(length_scale: float, k: int) -> Problem:
    params = {"length_scale": length_scale}
    return Problem(
        name=f"rbf-1d-{length_scale:g}",
        title=f"RBF, length scale {length_scale:g}, uniform on [-2, 2]",
        n_components=k,
        draw=interval,
        solve=lambda: quadrature_truth(kernel_function("rbf", params), *legendre(400), k + MORE),
        kernel_params=params,
    )


# The Gaussian kernel under a Gaussian measure


def gaussian(n: int, generator: Generator, sigmas: Sequence[float]) -> Tensor:
    return torch.randn(n, len(sigmas), generator=generator, dtype=torch.float64) * torch.tensor(
        sigmas, dtype=torch.float64
    )


def hermite_pairs(sigma: float, length_scale: float, count: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    r"""Eigenvalues and eigenfunctions of exp(-(x - x')^2 / 2 l^2) under N(0, sigma^2), in closed form.

        mu_j = sqrt(2a / A) (b / A)^j,   phi_j = (c/a)^1/4 / sqrt(2^j j!) exp(-(c - a) x^2) H_j(sqrt(2c) x)
        a = 1 / 4 sigma^2,   b = 1 / 2 l^2,   c = sqrt(a^2 + 2ab),   A = a + b + c

    Rasmussen, Williams: Gaussian Processes for Machine Learning, section 4.3.1.
    """
    a, b = 1 / (4 * sigma**2), 1 / (2 * length_scale**2)
    c = math.sqrt(a * a + 2 * a * b)
    A = a + b + c
    j = np.arange(count)
    norms = (c / a) ** 0.25 / np.sqrt(2.0**j * np.array([math.factorial(i) for i in j], dtype=float))

    def phi(x: Tensor) -> Tensor:
        values = x.numpy()[:, None]
        decay = np.exp(-(c - a) * values**2)
        return torch.from_numpy(norms * decay * eval_hermite(j, math.sqrt(2 * c) * values))

    return torch.from_numpy(math.sqrt(2 * a / A) * (b / A) ** j), phi


def hermite_nodes(sigma: float, count: int) -> tuple[Tensor, Tensor]:
    """Gauss-Hermite nodes and weights of N(0, sigma^2)."""
    x, w = np.polynomial.hermite.hermgauss(count)
    return torch.from_numpy(math.sqrt(2) * sigma * x), torch.from_numpy(w / math.sqrt(math.pi))


def leading_degrees(axes: int, k: int) -> Iterator[tuple[int, ...]]:
    """Yield degrees that can be among the k leading ones: at least prod (d_a + 1) functions precede a product."""
    if axes == 0:
        yield ()
        return
    for degree in range(k):
        for rest in leading_degrees(axes - 1, k // (degree + 1)):
            yield degree, *rest


def hermite_truth(sigmas: Sequence[float], length_scale: float, counts: Sequence[int], k: int) -> Truth:
    """Products over the coordinates, the largest eigenvalues first."""
    axes = [hermite_nodes(sigma, count) for sigma, count in zip(sigmas, counts, strict=True)]
    nodes = torch.cartesian_prod(*(x for x, _ in axes))
    weights = torch.cartesian_prod(*(w for _, w in axes)).prod(1)
    pairs = [hermite_pairs(sigma, length_scale, k) for sigma in sigmas]
    degrees = list(leading_degrees(len(sigmas), k))
    mu = torch.stack([torch.stack([pairs[a][0][i] for a, i in enumerate(d)]).prod() for d in degrees])
    order = mu.argsort(descending=True)[:k]
    tables = [phi(x) for (x, _), (_, phi) in zip(axes, pairs, strict=True)]  # on each axis alone
    places = torch.cartesian_prod(*(torch.arange(count) for count in counts))
    phi = torch.stack(
        [torch.stack([tables[a][places[:, a], i] for a, i in enumerate(degrees[n])]).prod(0) for n in order.tolist()], 1
    )
    return Truth(nodes, weights, mu[order], phi)


def rbf_gaussian(sigmas: Sequence[float], counts: Sequence[int], k: int) -> Problem:
    d = len(sigmas)
    return Problem(
        name=f"rbf-{d}d",
        title=f"RBF, length scale 1, Gaussian measure with deviations {', '.join(f'{s:g}' for s in sigmas)}",
        n_components=k,
        draw=partial(gaussian, sigmas=sigmas),
        solve=lambda: hermite_truth(sigmas, 1.0, counts, k + MORE),
        kernel_params={"length_scale": 1.0},
    )


# A polynomial kernel on the sphere


def sphere(n: int, generator: Generator) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(n, 3, generator=generator, dtype=torch.float64), dim=1)


def cube(x: Tensor, y: Tensor) -> Tensor:
    """((1 + x.y) / 2)^3: 1 on the diagonal of the sphere."""
    return polynomial(x, y, degree=3, gamma=0.5, coef0=0.5)


def spherical_truth(rings: int = 24) -> Truth:
    """Spherical harmonics of degree 0 to 3; by Funk and Hecke mu_l is 1/2 the integral of kappa(t) P_l(t).

    Multiplicities 1, 3, 5, 7; the kernel has no others.
    """
    t, w = np.polynomial.legendre.leggauss(rings)
    azimuth = 2 * math.pi * np.arange(2 * rings) / (2 * rings)
    height, angle = (grid.ravel() for grid in np.meshgrid(t, azimuth, indexing="ij"))
    radius = np.sqrt(1 - height**2)
    nodes = np.stack([radius * np.cos(angle), radius * np.sin(angle), height], 1)
    weights = np.repeat(w / 2, len(azimuth)) / len(azimuth)
    mu, phi = [], []
    for degree in range(4):
        value = (w / 2 * ((1 + t) / 2) ** 3 * np.polynomial.legendre.Legendre.basis(degree)(t)).sum()
        for order in range(-degree, degree + 1):
            m = abs(order)
            share = math.factorial(degree - m) / math.factorial(degree + m)
            norm = math.sqrt((2 * degree + 1) * share * (1 if m == 0 else 2))
            wave = np.cos(m * angle) if order >= 0 else np.sin(m * angle)
            mu.append(value)
            phi.append(norm * lpmv(m, degree, height) * wave)
    as_tensor = torch.from_numpy
    return Truth(as_tensor(nodes), as_tensor(weights), as_tensor(np.array(mu)), as_tensor(np.stack(phi, 1)))


# A stochastic block model


@dataclass(frozen=True)
class BlockModel(Problem):
    """A random graph: nodes of 8 blocks, an edge between two with a probability that depends on their blocks.

    Methods are given the sampled adjacency matrix, zeros and ones, and features that tell the blocks apart; the truth
    is the kernel of probabilities. Communities attract (positive eigenvalues), the two sides of each repel (negative).
    """

    def sample(self, n: int, seed: int) -> Sample:
        """`n` nodes and the edges between them; `cross` draws edges for new nodes."""
        generator = torch.Generator().manual_seed(seed)
        x = self.draw(n, generator)

        def edges(probabilities: Tensor) -> Tensor:
            drawn = torch.rand(probabilities.shape, generator=generator, dtype=torch.float64)
            return (drawn < probabilities).double()

        upper = edges(self.kappa(x, x)).triu(1)
        return Sample(x, upper + upper.T, lambda new: edges(self.kappa(new, x)))


SHARES = torch.tensor([0.18, 0.14, 0.15, 0.13, 0.12, 0.1, 0.1, 0.08], dtype=torch.float64)
CENTRES = torch.stack([torch.tensor([math.cos(a), math.sin(a)]) for a in np.arange(8) * math.pi / 4]).double() * 1.5
SPREAD = 0.12


def block_probabilities() -> Tensor:
    """P_ab of blocks a = (community, side): a base rate, higher within a community, highest between its two sides."""
    community = torch.arange(8) // 2
    side = (1.0 - 2.0 * (torch.arange(8) % 2)).double()
    attraction = torch.diag(torch.tensor([0.55, 0.45, 0.38, 0.32], dtype=torch.float64))[community][:, community]
    repulsion = torch.diag(torch.tensor([0.3, 0.28, 0.25, 0.2], dtype=torch.float64))[community][:, community]
    return 0.15 + attraction - repulsion * torch.outer(side, side)


def blocks(x: Tensor) -> Tensor:
    """The block of each node, by the nearest centre."""
    return torch.cdist(x, CENTRES).argmin(1)


def block_nodes(n: int, generator: Generator) -> Tensor:
    drawn = torch.multinomial(SHARES, n, replacement=True, generator=generator)
    return CENTRES[drawn] + SPREAD * torch.randn(n, 2, generator=generator, dtype=torch.float64)


def block_kernel(x: Tensor, y: Tensor) -> Tensor:
    return block_probabilities()[blocks(x)][:, blocks(y)]


def block_truth(count: int = 100) -> Truth:
    """Solve an eigenproblem with one row per block; nodes are `count` points of every block, with its weight."""
    root = SHARES.sqrt()
    mu, vectors = torch.linalg.eigh(root[:, None] * block_probabilities() * root)
    phi = (vectors / root[:, None]).flip(1)
    generator = torch.Generator().manual_seed(12345)
    noise = SPREAD * torch.randn(8 * count, 2, generator=generator, dtype=torch.float64)
    number = torch.arange(8).repeat_interleave(count)
    return Truth(CENTRES[number] + noise, SHARES[number] / count, mu.flip(0), phi[number])


PROBLEMS: dict[str, Problem] = {
    problem.name: problem
    for problem in (
        rbf_interval(1.0, 10),
        rbf_interval(0.3, 16),
        rbf_gaussian((1.3, 0.7), (48, 40), 20),
        rbf_gaussian((1.2, 0.8, 0.5, 0.3), (36, 22, 12, 8), 20),
        BlockModel(
            name="sbm",
            title="adjacency of a block model, 4 positive and 4 negative eigenvalues",
            n_components=4,
            draw=block_nodes,
            solve=block_truth,
            kernel=block_kernel,
        ),
        Problem(
            name="polynomial-sphere",
            title="polynomial kernel of degree 3 on the sphere, multiplicities 1, 3, 5, 7",
            n_components=16,
            draw=sphere,
            solve=spherical_truth,
            kernel=cube,
        ),
    )
}
