"""Measurement of one package on one system and seed: held-out VAMP-2, eigenvalues, CPU seconds."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks.common import harness
from benchmarks.time.methods import BATCH, CENTRES, METHODS, MODES, OUTPUTS, RATES, STEPS, gaussian_features, judged
from benchmarks.time.systems import SYSTEMS

LAG = 5
TRAJECTORIES, FRAMES = 20, 2000
TEST_SEED = 1000
"""Offset of the seed of the test trajectories."""


def protocol() -> dict[str, object]:
    """Return the settings that must be equal for results to be comparable."""
    return {
        "lag": LAG,
        "trajectories": TRAJECTORIES,
        "frames": FRAMES,
        "modes": MODES,
        "centres": CENTRES,
        "outputs": OUTPUTS,
        "steps": STEPS,
        "batch": BATCH,
        "vampnet_rates": list(RATES),
    }


def measure(system: str, package: str, seed: int) -> dict[str, object]:
    """All methods of a package."""
    made = SYSTEMS[system]
    train = list(made.simulate(TRAJECTORIES, FRAMES, seed))
    test = list(made.simulate(TRAJECTORIES, FRAMES, seed + TEST_SEED))
    features = gaussian_features(made, train, seed)
    seen = {True: ([features(x) for x in train], [features(x) for x in test]), False: (train, test)}
    _warm_up(package, [x[:500] for x in seen[True][0]])
    rows = []
    for name, (owner, fit, reversible, gaussian) in METHODS.items():
        if owner != package:
            continue
        learn, judge = seen[gaussian]
        began = time.process_time()
        fitted = fit(learn, LAG, seed, reversible)
        seconds = time.process_time() - began  # of the CPU: other programs share it
        rows.append(
            {
                "method": name,
                "vamp2": judged(fitted, judge, LAG),
                "values": [float(value) for value in fitted.values],
                "seconds": seconds,
            }
        )
        print(rows[-1], flush=True)
    known = [float(value) for value in made.eigenvalues(LAG, MODES)]
    return {
        "job": {"system": system, "package": package, "seed": seed},
        "protocol": protocol(),
        "known": known,
        "rows": rows,
        **harness.environment(),
    }


def _warm_up(package: str, train: list[Any]) -> None:
    """Fit something small first, so that no import is timed."""
    next(fit for owner, fit, _, _ in METHODS.values() if owner == package)(train, LAG, 0, True)


def main() -> None:
    """Measure, and write the result."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--system", choices=list(SYSTEMS), required=True)
    words.add_argument("--package", choices=["eigenmap", "deeptime"], required=True)
    words.add_argument("--seed", type=int, required=True)
    words.add_argument("--json", type=Path, required=True)
    given = words.parse_args()
    harness.write(given.json, measure(given.system, given.package, given.seed))


if __name__ == "__main__":
    main()
