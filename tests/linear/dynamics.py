"""Time series with known slow modes."""

from __future__ import annotations

import numpy as np

DECAYS = np.array([0.98, 0.9, 0.6])
"""Of a row to the next, along the three slow directions."""


def autoregressive(n: int = 4000, d: int = 8, seed: int = 0, shift: float = 3.0) -> np.ndarray:
    """Three independent directions that decay at known rates, under larger noise, mixed."""
    rng = np.random.default_rng(seed)
    slow = np.zeros((n, 3))
    slow[0] = rng.normal(size=3)
    for t in range(1, n):
        slow[t] = DECAYS * slow[t - 1] + np.sqrt(1 - DECAYS**2) * rng.normal(size=3)
    mix = np.random.default_rng(99).normal(size=(d, d))
    return np.hstack([slow, 2 * rng.normal(size=(n, d - 3))]) @ mix + shift


def rotating(n: int = 4000, seed: int = 0) -> np.ndarray:
    """A damped rotation: not reversible, eigenvalues 0.95 exp(+-0.3 i)."""
    rng = np.random.default_rng(seed)
    turn = 0.95 * np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    x = np.zeros((n, 2))
    for t in range(1, n):
        x[t] = turn @ x[t - 1] + rng.normal(size=2)
    return x


def tica(x: np.ndarray, lag: int) -> np.ndarray:
    """Eigenvalues of TICA by its definition: both directions of time, one dense generalised eigenproblem."""
    from scipy.linalg import eigh

    a, b = x[:-lag], x[lag:]
    both = np.vstack([a, b])
    both = both - both.mean(0)
    a, b = both[: len(a)], both[len(a) :]
    A = (a.T @ b + b.T @ a) / (2 * len(a))
    return np.sort(eigh(A, both.T @ both / len(both), eigvals_only=True))[::-1]
