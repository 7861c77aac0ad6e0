"""Reproducibility: runs with the same seed on the same CPU are identical bit for bit.

    python -m benchmarks.reliability.repeat --rounds 3

Each fit runs several times in separate processes. Weights, description (except for clocks) and metrics must have the
same digest; another seed must give a different one, or the comparison would be meaningless.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.reliability import outcome
from benchmarks.reliability.children import computed, eigenmap, load_libraries
from benchmarks.reliability.commands import commands, digest, make_inputs
from benchmarks.reliability.outcome import Outcome

FITS = ("fit images", "fit graph", "fit vectors")


def experiment(given: argparse.Namespace, found: Outcome) -> None:
    load_libraries()
    with tempfile.TemporaryDirectory(prefix="repeat") as name:
        inputs, place = Path(name) / "inputs", Path(name) / "place"
        make_inputs(inputs)
        for fit in FITS:
            first = [_fitted(fit, inputs, place, given.seed) for _ in range(given.rounds)]
            other = _fitted(fit, inputs, place, given.seed + 1)
            _compare(fit, first, other, found)
        kernels = [computed(lambda: _kernel(given.seed)) for _ in range(given.rounds)]
        _compare("NeuralEigenmap", kernels, computed(lambda: _kernel(given.seed + 1)), found)


def _fitted(name: str, inputs: Path, place: Path, seed: int) -> Any:
    fit = commands()[name]
    fit.prepare(inputs, place)
    ended = eigenmap(*fit.words(inputs, place), "--seed", seed)
    if ended.code != 0:
        raise RuntimeError(f"{name} ended with {ended.code}: {ended.err}")
    return computed(lambda: fit.whole(place))


def _kernel(seed: int) -> dict[str, str]:
    import numpy as np

    from eigenmap import NeuralEigenmap

    x: Any = np.random.default_rng(0).normal(size=(120, 3))
    model = NeuralEigenmap(4, max_steps=40, tol=0.0, batch_size=32, random_state=seed).fit(x)
    return {"codes": digest(model.transform(x).tobytes()), "eigenvalues": digest(model.eigenvalues_.tobytes())}


def _compare(name: str, equal: list[Any], other: Any, found: Outcome) -> None:
    found.rounds += len(equal)
    different = sorted({part for one in equal for part in one if one[part] != equal[0][part]})
    if different:
        found.fail(f"{name}: {', '.join(different)} differ between runs with one seed")
    else:
        found.counts["equal to the bit"] += len(equal)
    key = "weights" if "weights" in other else "codes"
    if other[key] == equal[0][key]:
        found.fail(f"{name}: another seed makes no difference")


if __name__ == "__main__":
    outcome.run("repeat", __doc__, 3, experiment)
