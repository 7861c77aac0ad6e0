r"""Rivals in closed form: prefix, principal components, random projections, canonical correlations.

Each takes training pairs and returns an encoder. Principal components are those of both sides together, since one model
makes the vectors of both. Canonical correlations have a map for each side.
"""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from benchmarks.vectors.scores import Encoder
from benchmarks.vectors.sets import Floats, Pairs


def prefix(pairs: Pairs, seed: int) -> Encoder:
    """The vector itself, cut."""
    return lambda rows, side, length: rows[:, :length]


def pca(pairs: Pairs, seed: int, whitened: bool = False) -> Encoder:
    """Principal components."""
    mean, basis, deviation = _principal(pairs)
    basis = basis / deviation if whitened else basis
    return lambda rows, side, length: ((rows - mean) @ basis[:, :length]).astype(np.float32)


def pca_whitened(pairs: Pairs, seed: int) -> Encoder:
    """Principal components of unit variance."""
    return pca(pairs, seed, whitened=True)


def pca_documents(pairs: Pairs, seed: int) -> Encoder:
    """Principal components of the documents alone, without directions in which queries and documents differ."""
    return pca(Pairs(pairs.right, pairs.right), seed)


def random_projection(pairs: Pairs, seed: int) -> Encoder:
    """Products with Gaussian vectors."""
    n = pairs.left.shape[1]
    basis = np.random.default_rng((seed, 3)).normal(size=(n, n)).astype(np.float32)
    return lambda rows, side, length: rows @ basis[:, :length]


def cca(pairs: Pairs, seed: int) -> Encoder:
    """Canonical correlations without a ridge, from the covariances of both sides."""
    sides = [np.asarray(side, np.float64) for side in pairs]
    means = [side.mean(0) for side in sides]
    x, y = (side - mean for side, mean in zip(sides, means, strict=True))
    whiten, whiten_plus = _whitening(x), _whitening(y)
    U, _, Vt = np.linalg.svd(whiten.T @ (x.T @ y) @ whiten_plus, full_matrices=False)
    rotations = {"left": whiten @ U, "right": whiten_plus @ Vt.T}
    centres = dict(zip(("left", "right"), means, strict=True))
    return lambda rows, side, length: ((rows - centres[side]) @ rotations[side][:, :length]).astype(np.float32)


def _whitening(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """W with (x W)^T (x W) = I."""
    variance, basis = np.linalg.eigh(x.T @ x)
    keep = variance > variance[-1] * 1e-10
    return basis[:, keep] / np.sqrt(variance[keep])


MOST_COMPONENTS = 32
"""Components of scikit-learn's CCA, whose power iterations go over all pairs for one component at a time."""


def cca_sklearn(pairs: Pairs, seed: int) -> Encoder:
    """`sklearn.cross_decomposition.CCA`; more than `MOST_COMPONENTS` features are refused."""
    from sklearn.cross_decomposition import CCA
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        made = CCA(n_components=MOST_COMPONENTS).fit(*pairs)

    def encode(rows: Floats, side: str, length: int) -> Floats:
        if length > MOST_COMPONENTS:
            raise ValueError(f"{length} features of {MOST_COMPONENTS}")
        if side == "left":
            return np.asarray(made.transform(rows)[:, :length], np.float32)
        return np.asarray(made.transform(rows[:, : made.n_features_in_], rows)[1][:, :length], np.float32)

    return encode


def cca_zoo(pairs: Pairs, seed: int) -> Encoder:
    """`cca_zoo.linear.CCA`, with as many features as it finds."""
    from cca_zoo.linear import CCA

    made = CCA(n_components=pairs.left.shape[1]).fit([np.asarray(side, np.float64) for side in pairs])

    def encode(rows: Floats, side: str, length: int) -> Floats:
        both = made.transform([np.asarray(rows, np.float64)] * 2)  # it takes nothing but both sides
        return np.asarray(both[side == "right"][:, :length], np.float32)

    return encode


def _principal(pairs: Pairs) -> tuple[Floats, Floats, Floats]:
    """Return the mean, the directions by descending variance, and their standard deviations."""
    count = 2 * pairs.count
    mean = (pairs.left.sum(0, dtype=np.float64) + pairs.right.sum(0, dtype=np.float64)) / count
    C = sum(np.asarray(side, np.float64).T @ np.asarray(side, np.float64) for side in pairs) / count
    variance, basis = np.linalg.eigh(C - np.outer(mean, mean))
    deviation = np.sqrt(np.maximum(variance[::-1], 1e-12 * variance[-1]))
    return mean.astype(np.float32), basis[:, ::-1].astype(np.float32), deviation.astype(np.float32)
