"""The study of slow modes: its systems, its score, its tables."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.common.plan import Stored
from benchmarks.time import RESULTS, tables
from benchmarks.time.methods import METHODS, gaussian_features, judged, ours_linear, vamp2
from benchmarks.time.study import PACKAGES, SEEDS
from benchmarks.time.study import SYSTEMS as NAMES
from benchmarks.time.systems import SYSTEMS
from eigenmap.linear.slow import vamp2_of


def test_the_known_eigenvalues_are_those_of_the_simulation() -> None:
    """Transition counts between the halves of a coarse grid, from many short runs, decay as the reference says."""
    system = SYSTEMS["prinz"]
    x = system.simulate(300, 300, seed=0)[..., 0]
    cells = np.linspace(-1.1, 1.1, 41)
    states = np.clip(np.digitize(x, cells), 0, 41)
    counts = np.zeros((42, 42))
    np.add.at(counts, (states[:, :-10].ravel(), states[:, 10:].ravel()), 1)
    seen = counts.sum(1) > 0
    counts = counts[seen][:, seen]
    both = counts + counts.T
    found = np.sort(np.linalg.eigvals(both / both.sum(1, keepdims=True)).real)[::-1][1:4]
    np.testing.assert_allclose(found, system.eigenvalues(10, 3), atol=0.04)


@pytest.mark.parametrize("name", NAMES)
def test_a_gradient_is_that_of_its_potential(name: str) -> None:
    def potential(z: np.ndarray) -> np.ndarray:
        if name == "prinz":
            x = z[:, 0]
            wells = 0.8 * np.exp(-80 * x**2) + 0.2 * np.exp(-80 * (x - 0.5) ** 2) + 0.5 * np.exp(-40 * (x + 0.5) ** 2)
            return np.asarray(4 * (x**8 + wells))
        x, y = z.T
        hills = 3 * np.exp(-(x**2) - (y - 1 / 3) ** 2) - 3 * np.exp(-(x**2) - (y - 5 / 3) ** 2)
        wells = -5 * np.exp(-((x - 1) ** 2) - y**2) - 5 * np.exp(-((x + 1) ** 2) - y**2)
        return np.asarray(hills + wells + 0.2 * x**4 + 0.2 * (y - 1 / 3) ** 4)

    system = SYSTEMS[name]
    z = np.random.default_rng(0).uniform(-1, 1, (50, system.dimension))
    for axis in range(system.dimension):
        step = 1e-5 * np.eye(system.dimension)[axis]
        slope = (potential(z + step) - potential(z - step)) / 2e-5
        np.testing.assert_allclose(system.gradient(z)[:, axis], slope, rtol=1e-5, atol=1e-6)


def test_linear_modes_of_gaussian_features_come_close_to_the_truth() -> None:
    system = SYSTEMS["prinz"]
    train, test = (list(system.simulate(30, 600, seed)) for seed in (0, 1))
    features = gaussian_features(system, train, 0)
    fitted = ours_linear([features(x) for x in train], 5, 0, True)
    known = system.eigenvalues(5, 3)
    np.testing.assert_allclose(fitted.values, known, atol=0.05)
    assert judged(fitted, [features(x) for x in test], 5) == pytest.approx(1 + (known**2).sum(), abs=0.15)


def test_the_score_of_the_study_is_the_library_s() -> None:
    x = np.random.default_rng(0).normal(size=(300, 4)).cumsum(0)
    assert vamp2(x[:-3], x[3:]) == pytest.approx(vamp2_of(x[:-3], x[3:]), abs=1e-9)


def test_the_table_has_every_method_and_what_is_known() -> None:
    stored = Stored(RESULTS)
    text = tables.tables(stored)
    run = {
        (result["job"]["system"], result["job"]["package"]) for name in stored.paths if (result := stored.read(name))
    }
    for system in NAMES:
        for name, (package, *_) in METHODS.items():
            assert (system, package) not in run or f"| {name} |" in text
        assert text.count("| known |") == len(NAMES)
    assert len(run) <= len(PACKAGES) * len(NAMES) * len(SEEDS)
