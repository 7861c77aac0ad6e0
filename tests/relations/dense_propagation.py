"""Propagation written out with dense float64 matrices: what the code is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Dense = npt.NDArray[np.float64]


def random_weights(n: int, edges: int, seed: int = 0, weighted: bool = False) -> Dense:
    """A symmetric matrix without a diagonal; some nodes may be alone."""
    rng: Any = np.random.default_rng(seed)
    W = np.zeros((n, n))
    for _ in range(edges):
        i, j = rng.choice(n, 2, replace=False)
        W[i, j] = W[j, i] = rng.uniform(0.5, 3) if weighted else 1.0
    return W


def smoothing(W: Dense) -> Dense:
    """D^-1/2 (W + c I) D^-1/2 with c the mean weight of an edge."""
    c = W[W > 0].mean()
    looped = W + c * np.eye(len(W))
    d = looped.sum(1)
    return looped / np.sqrt(d[:, None] * d[None, :])


def propagated(way: str, restart: float, S: Dense, h: Dense) -> Dense:
    """The propagated codes of the table in `relations.propagation`."""
    if way == "none":
        return h
    if way == "S":
        return S @ h
    if way == "S2":
        return S @ S @ h
    if way == "concat":
        return np.concatenate([unit(part) for part in (h, S @ h, S @ S @ h)], axis=1)
    y = h
    for _ in range(10):
        y = (1 - restart) * S @ y + restart * h
    return y


def unit(rows: Dense) -> Dense:
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norm > 0, norm, 1)


def edge_list(W: Dense) -> tuple[npt.NDArray[np.int64], Dense]:
    """Both directions, and the weights."""
    index = np.stack(np.nonzero(W))
    return index, W[tuple(index)]
