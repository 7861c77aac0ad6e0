"""Point clouds: two samples of a surface, each rotated at random, share its shape.

Six shapes of random proportions are sampled with 200 noisy points. A cloud is represented by its moments up to degree
four, which rotate with it, and by a histogram of the distances between its points, which does not.
"""

from itertools import combinations_with_replacement

import numpy as np
from scipy.spatial.distance import pdist
from scipy.spatial.transform import Rotation

from examples.common import Floats, compare, show

POINTS, BINS = 200, 24
MONOMIALS = [axes for degree in (1, 2, 3, 4) for axes in combinations_with_replacement(range(3), degree)]
TITLE = "Point clouds, six shapes, 6 features"


def surface(shape: int, stretch: Floats, rng: np.random.Generator) -> Floats:
    """Return points of a sphere, cube, cylinder, torus, cone or helix."""
    u, v, z = rng.uniform(0, 2 * np.pi, POINTS), rng.uniform(0, 2 * np.pi, POINTS), rng.uniform(-1, 1, POINTS)
    ring = np.stack([np.cos(u), np.sin(u), z], 1)
    cube = rng.uniform(-1, 1, (POINTS, 3))
    cube[np.arange(POINTS), rng.integers(0, 3, POINTS)] = rng.choice([-1, 1], POINTS)
    torus = np.stack([(1 + 0.3 * np.cos(v)) * np.cos(u), (1 + 0.3 * np.cos(v)) * np.sin(u), 0.3 * np.sin(v)], 1)
    cone = np.stack([(1 - z) / 2 * np.cos(u), (1 - z) / 2 * np.sin(u), z], 1)
    helix = np.stack([np.cos(2 * u), np.sin(2 * u), (u - np.pi) / np.pi], 1)
    sphere = np.stack([np.sqrt(1 - z**2) * np.cos(u), np.sqrt(1 - z**2) * np.sin(u), z], 1)
    return [sphere, cube, ring, torus, cone, helix][shape] * stretch + 0.05 * rng.normal(size=(POINTS, 3))


def seen(points: Floats, rng: np.random.Generator) -> Floats:
    """Return moments and distances of a cloud after a random rotation."""
    points = Rotation.random(random_state=rng.integers(1 << 31)).apply(points - points.mean(0))
    moments = [points[:, list(axes)].prod(1).mean() for axes in MONOMIALS]
    return np.r_[moments, np.histogram(pdist(points[::2]), BINS, (0, 4), density=True)[0]]


def main() -> dict[str, float]:
    """Learn from pairs of samples, then classify shapes by single clouds."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 6, 1500)
    stretches = rng.uniform(0.7, 1.3, (1500, 3))
    first, second, test = (
        np.stack([seen(surface(*thing, rng), rng) for thing in zip(labels, stretches, strict=True)]) for _ in range(3)
    )
    return compare(first, second, test, labels, dim=6)


if __name__ == "__main__":
    show(TITLE, main())
