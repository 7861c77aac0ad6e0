"""Codes to search: those of a trained model, or any number drawn from a mixture fitted to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

COMPONENTS = 1000
USUAL_T = 4.0
CHUNK = 100_000
"""Vectors per chunk. Each chunk has its own seed, so the first million of ten million equal a draw of one million."""


def unit(codes: Floats) -> Floats:
    """Rows of norm 1."""
    return codes / np.maximum(np.linalg.norm(codes, axis=1, keepdims=True), 1e-30)


@dataclass(frozen=True)
class Codes:
    """Contents of the .npz file; labels are class numbers, or bool matrices if an item has several."""

    gallery: Floats
    queries: Floats
    gallery_labels: NDArray[Any]
    query_labels: NDArray[Any]
    eigenvalues: NDArray[np.float64]
    t: float | None
    """Exponent of their weights, if known."""

    @classmethod
    def load(cls, path: Path, most_queries: int = 2000) -> Codes:
        """Read codes as float32, weighted and of norm 1 as `Eigenmap.encode` returns them, and a sample of the queries.

        If the file states `t`, its features are already weighted. If it does not, and rows do not have norm 1, it
        contains features of equal variance, which are weighted by mu^4 here.
        """
        with np.load(path, allow_pickle=False) as file:
            parts = {name: file[name] for name in file.files}
        t = float(parts["t"]) if "t" in parts else None
        weights = np.ones(1, np.float32)
        norms = np.linalg.norm(parts["gallery"][:1000].astype(np.float32), axis=1)
        if t is None and not np.allclose(norms, 1, atol=5e-3):
            t = USUAL_T
            mu = np.maximum(np.asarray(parts["eigenvalues"], np.float64), 0)
            weights = ((mu / mu.max()) ** t).astype(np.float32)
        kept = np.sort(np.random.default_rng(0).permutation(len(parts["queries"]))[:most_queries])
        return cls(
            unit(parts["gallery"].astype(np.float32) * weights),
            unit(parts["queries"][kept].astype(np.float32) * weights),
            parts["gallery_labels"],
            parts["query_labels"][kept],
            np.asarray(parts["eigenvalues"], np.float64),
            t,
        )


@dataclass(frozen=True)
class Mixture:
    """Gaussians with diagonal covariances, drawn from in proportion to the items they were fitted to."""

    weights: NDArray[np.float64]
    means: Floats
    deviations: Floats
    unit: bool

    @classmethod
    def fit(cls, codes: Floats, components: int = COMPONENTS, seed: int = 0) -> Mixture:
        """Fit by k-means and the spread of each cluster, shrunk towards the common spread for small clusters."""
        import faiss

        components = min(components, len(codes) // 8)
        means = faiss.Kmeans(codes.shape[1], components, niter=10, seed=seed, verbose=False)
        means.train(codes)
        _, nearest = means.index.search(codes, 1)
        of = nearest[:, 0]
        count = np.bincount(of, minlength=components)
        residual = np.square(codes - means.centroids[of], dtype=np.float64)
        own = np.stack([np.bincount(of, residual[:, j], minlength=components) for j in range(codes.shape[1])], axis=1)
        common, prior = residual.mean(axis=0), 10.0
        variance = (own + prior * common) / (count[:, None] + prior)
        norms = np.linalg.norm(codes[:1000], axis=1)
        unit = bool(np.allclose(norms, 1, atol=5e-3))
        return cls(count / count.sum(), np.asarray(means.centroids), np.sqrt(variance).astype(np.float32), unit)

    def draw(self, count: int, seed: tuple[int, int]) -> Floats:
        """Draw vectors, of norm 1 if the codes were."""
        rng = np.random.default_rng(seed)
        of = rng.choice(len(self.weights), count, p=self.weights)
        drawn = rng.standard_normal((count, self.means.shape[1]), np.float32)
        drawn *= self.deviations[of]
        drawn += self.means[of]
        if self.unit:
            drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        return drawn

    def chunk(self, number: int) -> Floats:
        """Return chunk `number`, which begins with vector number * CHUNK."""
        return self.draw(CHUNK, (1, number))

    def items(self, count: int) -> Floats:
        """The first `count` vectors."""
        parts = [self.chunk(number) for number in range(-(-count // CHUNK))]
        return np.concatenate(parts)[:count]

    def queries(self, count: int) -> Floats:
        """Vectors that are not among the items."""
        return self.draw(count, (2, 0))
