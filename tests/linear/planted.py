"""Pairs with known structure: a shared signal in few directions, private noise in many."""

from __future__ import annotations

import numpy as np


def planted(n: int = 1500, d: int = 24, shared: int = 6, seed: int = 0, noise: float = 0.4) -> tuple[np.ndarray, ...]:
    """X and Y in one space: the same signal, noise of much larger variance elsewhere."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, shared))
    mix = np.linalg.qr(rng.normal(size=(d, d)))[0]

    def side() -> np.ndarray:
        seen = signal + noise * rng.normal(size=signal.shape)
        return (np.hstack([seen, 3 * rng.normal(size=(n, d - shared))]) @ mix + 0.5).astype(np.float32)

    return side(), side()


def two_spaces(n: int = 1500, d: int = 20, e: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """X and Y of different lengths whose leading canonical correlations differ clearly."""
    rng = np.random.default_rng(seed)
    rho = np.array([0.95, 0.8, 0.6, 0.3])
    u = rng.normal(size=(n, d))
    v = rng.normal(size=(n, e))
    v[:, :4] = rho * u[:, :4] + np.sqrt(1 - rho**2) * v[:, :4]
    return u @ rng.normal(size=(d, d)) + 1, v @ rng.normal(size=(e, e)) - 2


def canonical_correlations(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Canonical correlations from orthonormal bases of both spaces (Bjorck and Golub, 1973), without moments."""
    q, r = (np.linalg.qr((side - side.mean(0)).astype(np.float64))[0] for side in (x, y))
    return np.linalg.svd(q.T @ r, compute_uv=False)


SPREAD = 0.12


def reflected(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """X and Y of two spaces whose singular functions are known, and these functions of both.

    a is uniform on [0, 1], b is a after Brownian motion with reflecting walls: the singular functions of their joint
    density are sqrt(2) cos(pi j a) on both sides, with values `singular_values`. X is a itself, Y a curve through b.
    """
    rng = np.random.default_rng(seed)
    a = rng.uniform(size=n)
    b = np.abs(a + SPREAD * rng.normal(size=n)) % 2
    b = np.where(b > 1, 2 - b, b)
    known = [np.sqrt(2) * np.cos(np.pi * np.arange(1, 4) * side[:, None]) for side in (a, b)]
    return a[:, None], np.stack([b**3, np.exp(-2 * b)], axis=1), known[0], known[1]


def singular_values(count: int = 3) -> np.ndarray:
    """Of `reflected`: exp(-(pi j spread)^2 / 2)."""
    return np.exp(-((np.pi * np.arange(1, count + 1) * SPREAD) ** 2) / 2)


def squared(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Partners that share only the squares of their coordinates, which no linear map finds."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 6))
    return x, x * rng.choice([-1, 1], size=x.shape)
