"""Prepared vectors and their splits."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.common.errors import BenchmarkError

Floats = npt.NDArray[np.float32]

TEST = 4_000
"""Number of test pairs of a split, with as many queries as documents; nothing is fitted or chosen on them."""
SEEDS = (0, 1, 2)
LENGTHS = (8, 16, 32, 64, 128, 256, 384)


class Pairs(NamedTuple):
    """Pairs of vectors: row k of one side belongs to row k of the other."""

    left: Floats
    right: Floats

    @property
    def count(self) -> int:
        """Number of pairs."""
        return len(self.left)

    def take(self, rows: npt.NDArray[np.int64]) -> Pairs:
        """Return the pairs in these rows."""
        return Pairs(self.left[rows], self.right[rows])


class Split(NamedTuple):
    """Pairs to fit to, and pairs to test on."""

    fit: Pairs
    test: Pairs


def load(data: Path, name: str, side: str, model: str) -> Floats:
    """The vectors of one side of a set by a model."""
    file = data / name / f"{side}.{model}.npy"
    if not file.is_file():
        raise BenchmarkError(f"There is no {file}: see benchmarks/vectors/README.md for how to prepare it.")
    rows: Floats = np.load(file).astype(np.float32, copy=False)
    return rows


def load_pairs(data: Path, name: str, left: str, right: str | None = None) -> Pairs:
    """Both sides of a set, by one model or by two."""
    pairs = Pairs(load(data, name, "left", left), load(data, name, "right", right or left))
    if len(pairs.left) != len(pairs.right):
        raise BenchmarkError(f"The sides of {data / name} have {len(pairs.left):,} and {len(pairs.right):,} rows.")
    return pairs


def texts(data: Path, name: str) -> str | None:
    """Return a digest of the texts of a set, or None if it has none or they are not known."""
    file = data / name / "about.json"
    sides = json.loads(file.read_text(encoding="utf-8")).get("sides", {}) if file.is_file() else {}
    digests = [sides[side]["sha256"] for side in sorted(sides)]
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()[:12] if digests else None


def split(pairs: Pairs, seed: int, fit: int | None = None, test: int = TEST) -> Split:
    """Split pairs at random into test pairs and training pairs (all others, or `fit` of them)."""
    if pairs.count < 2 * test:
        raise BenchmarkError(f"{pairs.count:,} pairs are too few for a test on {test:,}.")
    order = np.random.default_rng((seed, 19)).permutation(pairs.count)
    rest = order[test:] if fit is None else order[test : test + fit]
    return Split(pairs.take(rest), pairs.take(order[:test]))


def held_out(pairs: Pairs, seed: int, share: float = 0.1, most: int = 2_000) -> Split:
    """Hold out a tenth of the pairs for choices, as `eigenmap.fit_vectors` does."""
    order = np.random.default_rng((seed, 7)).permutation(pairs.count)
    count = min(most, round(share * pairs.count))
    return Split(pairs.take(order[count:]), pairs.take(order[:count]))


def lengths_of(n_features: int) -> list[int]:
    """Return the lengths at which vectors of `n_features` numbers are measured."""
    return [length for length in LENGTHS if length < n_features] + [n_features]
