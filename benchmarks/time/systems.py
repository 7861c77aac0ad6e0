r"""Diffusions with known slow modes: the Prinz potential and a triple well.

    x_{s+1} = x_s - h grad V(x_s) + sigma sqrt(h) xi,        one frame every `substeps` steps

Trajectories are simulated by this recursion. The reference belongs to the recursion itself, not to its limit h -> 0:
eigenvalues of the transition matrix of one step on a fine grid, to the power `substeps`.

[1] Prinz, Wu, Sarich, Keller, Senne, Held, Chodera, Schuette, Noe: Markov models of molecular kinetics, 2011.
[2] Schuette, Sarich: Metastability and Markov state models in molecular dynamics, 2013.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class System:
    """A diffusion of (n, dimension) positions in a potential."""

    name: str
    dimension: int
    gradient: Callable[[Floats], Floats]
    sigma: float
    h: float
    substeps: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    cells: int
    """Number of grid cells along each axis of the reference."""

    def simulate(self, trajectories: int, frames: int, seed: int) -> Floats:
        """Return trajectories (count, frames, dimension) from uniform positions, without the first frames."""
        rng = np.random.default_rng(seed)
        burn_in = 200
        x = rng.uniform(self.low, self.high, (trajectories, self.dimension)) * 0.7
        noise = self.sigma * np.sqrt(self.h)
        found = np.empty((trajectories, frames, self.dimension))
        for frame in range(-burn_in, frames):
            for _ in range(self.substeps):
                x = x - self.h * self.gradient(x) + noise * rng.standard_normal(x.shape)
            if frame >= 0:
                found[:, frame] = x
        return found

    def eigenvalues(self, lag: int, count: int = 5) -> Floats:
        """The largest eigenvalues of the transition over `lag` frames below the trivial 1."""
        step = np.array(_step_eigenvalues(self.name)[1 : count + 1])
        return step ** (self.substeps * lag)

    def grid(self) -> Floats:
        """Return the centres of the cells, (cells^dimension, dimension)."""
        axes = [
            a + (b - a) * (np.arange(self.cells) + 0.5) / self.cells for a, b in zip(self.low, self.high, strict=True)
        ]
        return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)

    def step_matrix(self) -> Any:
        """Transition probabilities of one step between the cells, sparse, rows normalised."""
        from scipy.sparse import csr_matrix

        x = self.grid()
        moved = x - self.h * self.gradient(x)
        width = (np.array(self.high) - np.array(self.low)) / self.cells
        deviation = self.sigma * np.sqrt(self.h)
        reach = int(np.ceil(5 * deviation / width.min()))
        near = np.floor((moved - np.array(self.low)) / width).astype(np.int64)
        offsets = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * self.dimension, indexing="ij"), axis=-1)
        rows, columns, values = [], [], []
        for offset in offsets.reshape(-1, self.dimension):
            cell = near + offset
            inside = ((cell >= 0) & (cell < self.cells)).all(axis=1)
            middle = np.array(self.low) + (cell + 0.5) * width
            log = -((middle - moved) ** 2).sum(axis=1) / (2 * deviation**2)
            rows.append(np.flatnonzero(inside))
            columns.append(np.ravel_multi_index(tuple(cell[inside].T), (self.cells,) * self.dimension))
            values.append(np.exp(log[inside]))
        every = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
        matrix = csr_matrix(every, shape=(len(x), len(x)))
        return csr_matrix(matrix.multiply(1 / matrix.sum(axis=1)))


def _prinz_gradient(x: Floats) -> Floats:
    wells = 128 * x * np.exp(-80 * x**2) + 32 * (x - 0.5) * np.exp(-80 * (x - 0.5) ** 2)
    return 4 * (8 * x**7 - wells - 40 * (x + 0.5) * np.exp(-40 * (x + 0.5) ** 2))


def _triple_gradient(z: Floats) -> Floats:
    x, y = z[:, :1], z[:, 1:]
    up, low = np.exp(-(x**2) - (y - 5 / 3) ** 2), np.exp(-(x**2) - (y - 1 / 3) ** 2)
    right, left = np.exp(-((x - 1) ** 2) - y**2), np.exp(-((x + 1) ** 2) - y**2)
    in_x = -6 * x * low + 6 * x * up + 10 * (x - 1) * right + 10 * (x + 1) * left + 0.8 * x**3
    in_y = -6 * (y - 1 / 3) * low + 6 * (y - 5 / 3) * up + 10 * y * (right + left) + 0.8 * (y - 1 / 3) ** 3
    return np.hstack([in_x, in_y])


SYSTEMS = {
    one.name: one
    for one in (
        System("prinz", 1, _prinz_gradient, np.sqrt(2.0), 1e-3, 10, (-1.3,), (1.3,), 400),
        System("triple-well", 2, _triple_gradient, 1.09, 1e-2, 10, (-2.6, -2.0), (2.6, 2.8), 110),
    )
}
"""Test systems by name."""


@cache
def _step_eigenvalues(name: str) -> tuple[float, ...]:
    from scipy.sparse.linalg import eigs

    matrix = SYSTEMS[name].step_matrix()
    start = np.random.default_rng(0).uniform(size=matrix.shape[0])
    found = eigs(matrix, k=7, which="LR", v0=start, ncv=60, maxiter=20_000, return_eigenvectors=False)
    return tuple(sorted(found.real.tolist(), reverse=True))
