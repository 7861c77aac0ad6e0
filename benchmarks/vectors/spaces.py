r"""Two spaces with known singular functions, and agreement with cca-zoo.

    python -m benchmarks.vectors.spaces --json OUT.json --seed 0

*Circle*: x is uniform on a circle and y = x + sigma n. The singular functions of p(x, y) / (p(x) p(y)) are cos k x and
sin k x on both sides, with values exp(-k^2 sigma^2 / 2). The angle is not given: each side consists of its own random
units tanh(a cos + b sin + c). Alignment is the mean squared canonical correlation between the learned functions of a
frequency and the two true ones, on new points. The linear maps are exact up to what the units can express.

*Gaussian*: pairs with chosen canonical correlations behind random matrices. Linear maps find them exactly, up to the
number of pairs; ours is compared with cca-zoo's `CCA` and scikit-learn's on the same pairs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.vectors.rows import measured
from benchmarks.vectors.sets import Floats, Pairs
from eigenmap import PairEigenmap

Doubles = npt.NDArray[np.float64]

SIGMA = 0.5
FREQUENCIES = (1, 2, 3)
UNITS = 24
PAIRS, NEW = 500_000, 500_000
RHO = np.array([0.95, 0.9, 0.8, 0.7, 0.55, 0.4, 0.25, 0.1])
METHODS = ("circle, linear", "gaussian", "circle, neural")


def angles(rng: np.random.Generator, count: int) -> tuple[Doubles, Doubles]:
    """Pairs of angles."""
    x = rng.uniform(0, 2 * np.pi, count)
    return x, x + SIGMA * rng.normal(size=count)


def seen(angle: Doubles, weights: Doubles) -> Floats:
    """Return the units of a side."""
    return np.tanh(np.stack([np.cos(angle), np.sin(angle), np.ones_like(angle)], 1) @ weights).astype(np.float32)


def circle(solver: str, seed: int, pairs: int = PAIRS, new: int = NEW) -> dict[str, Any]:
    """Values of the leading functions beside the true ones, and alignment by frequency."""
    rng = np.random.default_rng((seed, 23))
    left, right = (1.5 * rng.normal(size=(3, UNITS)) for _ in range(2))
    x, y = angles(rng, pairs)
    count = 2 * len(FREQUENCIES)
    made = PairEigenmap(count, solver=solver, random_state=seed, device="cpu")
    made.fit(seen(x, left), seen(y, right))
    x, y = angles(rng, new)
    codes = made.transform(seen(x, left)), made.transform(seen(y, right), side="right")
    values = [_correlation(a, b) for a, b in zip(codes[0].T, codes[1].T, strict=True)]
    true = [float(np.exp(-(k**2) * SIGMA**2 / 2)) for k in FREQUENCIES]
    aligned = [
        float(
            np.mean([_shared(side[:, 2 * j : 2 * j + 2], angle, k) for side, angle in zip(codes, (x, y), strict=True)])
        )
        for j, k in enumerate(FREQUENCIES)
    ]
    pairwise = [float(np.mean(values[2 * j : 2 * j + 2])) for j in range(len(FREQUENCIES))]
    off = max(abs(found / value - 1) for found, value in zip(pairwise, true, strict=True))
    return {"values": pairwise, "true": true, "alignment": aligned, "worst_value": off, "worst_alignment": min(aligned)}


def gaussian(seed: int, count: int = PAIRS) -> dict[str, Any]:
    """Correlations of ours beside the true ones, cca-zoo's and scikit-learn's."""
    pairs = gaussian_pairs(seed, count)
    ours = PairEigenmap(len(RHO)).fit(*pairs).correlations_
    some = Pairs(pairs.left[:20_000], pairs.right[:20_000])
    few = PairEigenmap(len(RHO)).fit(*some)
    return {
        "true": RHO.tolist(),
        "values": ours.tolist(),
        "worst_value": float(np.abs(ours / RHO - 1).max()),
        "cca_zoo_difference": float(np.abs(few.correlations_ - cca_zoo_correlations(some)).max()),
        "sklearn": sklearn_correlations(some),
        "sklearn_sorted": bool((np.diff(sklearn_correlations(some)) <= 0).all()),
    }


def gaussian_pairs(seed: int, count: int) -> Pairs:
    """Rows of 12 and 10 numbers with canonical correlations `RHO`."""
    rng = np.random.default_rng((seed, 29))
    shared = rng.normal(size=(count, len(RHO)))
    sides = []
    for extra in (4, 2):
        own = np.sqrt(RHO) * shared + np.sqrt(1 - RHO) * rng.normal(size=shared.shape)
        rows = np.hstack([own, rng.normal(size=(count, extra))])
        sides.append(rows @ rng.normal(size=(rows.shape[1], rows.shape[1])))
    return Pairs(*sides)


def cca_zoo_correlations(pairs: Pairs) -> Doubles:
    """Correlations of the canonical variates of cca-zoo's `CCA`."""
    from cca_zoo.linear import CCA

    left, right = CCA(n_components=len(RHO)).fit_transform([pairs.left, pairs.right])
    return np.array([_correlation(a, b) for a, b in zip(left.T, right.T, strict=True)])


def sklearn_correlations(pairs: Pairs) -> list[float]:
    """Return the correlations of scikit-learn's `CCA`."""
    from sklearn.cross_decomposition import CCA

    left, right = CCA(n_components=len(RHO)).fit(*pairs).transform(*pairs)
    return [_correlation(a, b) for a, b in zip(left.T, right.T, strict=True)]


def _correlation(a: Doubles, b: Doubles) -> float:
    return float(np.corrcoef(a, b)[0, 1])


def _shared(codes: Doubles, angle: Doubles, k: int) -> float:
    """Mean squared canonical correlation between two learned functions and cos k x, sin k x."""
    true = np.stack([np.cos(k * angle), np.sin(k * angle)], 1)
    bases = [np.linalg.qr(side - side.mean(0))[0] for side in (codes, true)]
    return float((np.linalg.svd(bases[0].T @ bases[1])[1] ** 2).mean())


def main(words: list[str] | None = None) -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", type=Path, required=True, help="result to write or continue")
    made.add_argument("--seed", type=int, default=0)
    given = made.parse_args(words)

    def measure(name: str) -> dict[str, Any]:
        return gaussian(given.seed) if name == "gaussian" else circle(name.partition(", ")[2], given.seed)

    protocol = {"pairs": PAIRS, "new": NEW, "sigma": SIGMA, "units": UNITS}
    measured(given.json, protocol, {"seed": given.seed}, METHODS, measure)


if __name__ == "__main__":
    main()
