"""Numerical failures that must be detected: NaN, overflow, collapse, repeated and zero eigenvalues, low rank.

    python -m benchmarks.reliability.numbers --rounds 5

Each case runs with several seeds. It must end in an error (or a warning, if the result is still useful) that names the
problem.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability import outcome
from benchmarks.reliability.outcome import Outcome

Case = Callable[[int, Path], object]


def experiment(given: argparse.Namespace, found: Outcome) -> None:
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="numbers") as name:
        for number, (case, words) in enumerate(CASES):
            for seed in range(given.seed, given.seed + given.rounds):
                _try(case, words, seed, Path(name) / f"{number}-{seed}", found)


def _try(case: Case, words: str, seed: int, folder: Path, found: Outcome) -> None:
    from eigenmap import EigenmapError

    folder.mkdir()
    found.rounds += 1
    name = case.__name__.strip("_").replace("_", " ")
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = case(seed, folder)
            said = [result] if isinstance(result, str) else []
        except EigenmapError as error:
            said = [str(error)]
        except Exception as error:
            found.fail(f"{name}, seed {seed}: {type(error).__name__}: {str(error)[:200]}")
            return
    said += [str(warning.message) for warning in caught]
    if any(re.search(words, each, re.IGNORECASE) for each in said):
        found.counts[name] += 1
    else:
        found.fail(f"{name}, seed {seed}: nothing names it: {said}")


def _pictures(seed: int) -> Any:
    from tests.end_to_end.photos import pictures

    return pictures(60, 8, seed)


def _fit(seed: int, **more: Any) -> Any:
    import eigenmap as em

    settings = {"steps": 30, "batch_size": 16, "hidden": 16, "device": "cpu", "progress": False} | more
    return em.fit_images(_pictures(seed), 8, seed=seed, **settings)


def _training_that_diverges(seed: int, folder: Path) -> None:
    _fit(seed, lr=1e6, optimizer="sgd", clip_norm=None)


def _vectors_with_NaN(seed: int, folder: Path) -> None:
    import eigenmap as em

    x = np.random.default_rng(seed).normal(size=(200, 6)).astype(np.float32)
    x[seed % 200, 2] = np.nan
    em.fit_vectors(x, pairs=x[:, ::-1].copy(), n_components=3, progress=False)


def _features_of_nodes_with_infinity(seed: int, folder: Path) -> None:
    import eigenmap as em
    from tests.graphs import blocks

    x, edges, _ = blocks(60, seed=seed)
    x[seed % 60, 1] = np.inf
    em.fit_graph((x, edges), 4, steps=5, width=8, batch_size=16, device="cpu", progress=False)


def _codes_with_NaN_in_an_index(seed: int, folder: Path) -> None:
    from eigenmap import CodeIndex

    rows = np.random.default_rng(seed).normal(size=(10, 4)).astype(np.float32)
    rows[seed % 10, 1] = np.nan
    CodeIndex(4).add(rows, range(10))


def _codes_beyond_float32(seed: int, folder: Path) -> None:
    from eigenmap import CodeIndex

    CodeIndex(4).add(np.random.default_rng(seed).normal(size=(10, 4)) * 1e39, range(10))


def _images_of_one_colour(seed: int, folder: Path) -> str:
    """Images of one colour, whose views do not identify them."""
    said: list[str] = []
    same = np.full((60, 8, 8, 3), 40 + seed, np.uint8)
    settings: dict[str, Any] = {"steps": 30, "batch_size": 16, "hidden": 16, "device": "cpu", "progress": False}
    import eigenmap as em

    em.fit_images(same, 8, views="weak", seed=seed, say=said.append, **settings)
    return " ".join(said)


def _collapse(seed: int, folder: Path) -> None:
    """A network whose features are copies of one."""
    import torch

    from eigenmap.objectives import build
    from eigenmap.training import TrainingConfig, train
    from tests.training.toys import ToyNetwork, ToyRelation, held_out

    class Copies(ToyNetwork):
        def forward(self, x: Any) -> Any:
            features, psi = super().forward(x)
            return features, psi[:, :1].expand_as(psi)

    torch.manual_seed(seed)
    config = TrainingConfig(steps=40, check_every=2, log_every=2, accelerator="cpu")
    train(Copies(), ToyRelation(), build("nested"), config, held_out=held_out()[0][:2])


def _pairs_of_low_rank(seed: int, folder: Path) -> None:
    """Vectors of rank 2 cannot have five ordered features."""
    import eigenmap as em

    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(400, 2)) @ rng.normal(size=(2, 6))).astype(np.float32)
    em.fit_vectors(x, pairs=x + 0.01 * x[::-1], n_components=5, progress=False)


def _kernel_of_two_points(seed: int, folder: Path) -> str:
    """Two different points, repeated: a kernel of rank 2, with four eigenfunctions requested."""
    from eigenmap import NeuralEigenmap

    x = np.repeat(np.random.default_rng(seed).normal(size=(2, 2)), 30, axis=0)
    model = NeuralEigenmap(4, max_steps=20, batch_size=16, random_state=seed).fit(x)
    return f"rank {model.rank_} of {len(model.eigenvalues_)}"


def _repeated_eigenvalues(seed: int, folder: Path) -> str:
    """On a circle, sine and cosine of a frequency share an eigenvalue: their order means nothing."""
    from eigenmap import NeuralEigenmap

    angle = np.linspace(0, 2 * np.pi, 128, endpoint=False) + seed
    x = np.stack([np.cos(angle), np.sin(angle)], 1)
    model = NeuralEigenmap(5, kernel_params={"length_scale": 0.7}, max_steps=600, random_state=seed).fit(x)
    shared = [group for group in model.groups_ if len(group) > 1]
    return f"{shared} share an eigenvalue" if shared else f"groups {model.groups_}"


CASES: list[tuple[Case, str]] = [
    (_training_that_diverges, "diverged|collapsed"),
    (_vectors_with_NaN, "row.*NaN"),
    (_features_of_nodes_with_infinity, "infinity"),
    (_codes_with_NaN_in_an_index, "contain NaN"),
    (_codes_beyond_float32, "infinite"),
    (_collapse, "collapsed.*rank"),
    (_images_of_one_colour, "largest eigenvalue.*share next to nothing"),
    (_pairs_of_low_rank, "have rank 2"),
    (_kernel_of_two_points, "there are 2 eigenfunctions, not the 4"),
    (_repeated_eigenvalues, "share an eigenvalue"),
]


if __name__ == "__main__":
    outcome.run("numbers", __doc__, 5, experiment)
