"""A new model's queries on an old model's documents, from some thousand pairs, with nothing embedded again.

    python -m benchmarks.vectors.upgrade --data DATA --json OUT.json --seed 0

Documents were embedded by WordLlama; new queries come from MiniLM. The pairs are (MiniLM of a short description,
WordLlama of its long one). Rows: the old model alone, ridge regression of old vectors on new ones, canonical
correlations, our two maps (documents are mapped, not embedded again), the neural ones, and a map into codes that are
stored already (`into`: nothing is touched). Settings are chosen on held-out pairs among those given.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.vectors import ours, rivals, sets
from benchmarks.vectors.rows import measured
from benchmarks.vectors.scores import Encoder, by_length, ndcg
from benchmarks.vectors.sets import Floats, Pairs
from eigenmap import fit_vectors

PAIRS = 5_000
NEW, OLD = "minilm", "wordllama"
METHODS = ("old", "ridge", "cca", "two-spaces", "into", "neural")
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


def ridge_map(pairs: Pairs, seed: int) -> Encoder:
    """Least squares from new vectors to old ones, the penalty chosen on held-out pairs."""
    parts = sets.held_out(pairs, seed)
    full = [pairs.right.shape[1]]
    return max((_ridge(parts.fit, penalty) for penalty in RIDGES), key=lambda encode: ndcg(encode, parts.test, full))


def _ridge(pairs: Pairs, penalty: float) -> Encoder:
    x, y = (np.asarray(side, np.float64) for side in pairs)
    means = x.mean(0), y.mean(0)
    x, y = x - means[0], y - means[1]
    C = x.T @ x
    B = np.linalg.solve(C + penalty * np.diag(C).mean() * np.eye(len(C)), x.T @ y)

    def encode(rows: Floats, side: str, length: int) -> Floats:
        made = (rows - means[0]) @ B if side == "left" else rows - means[1]
        return np.asarray(made[:, :length], np.float32)

    return encode


def encoder_of(name: str, pairs: Pairs, old: Pairs, seed: int) -> tuple[Encoder, dict[str, Any]]:
    """A way to search old documents by new queries; `old` are the same pairs by the old model alone."""
    if name in ("old", "ridge", "cca"):
        fit = {"old": rivals.prefix, "ridge": ridge_map, "cca": rivals.cca}[name]
        return fit(pairs, seed), {}
    if name == "into":
        with tempfile.TemporaryDirectory() as folder:
            before = fit_vectors(old.left, pairs=old.right, seed=seed, progress=False, out=Path(folder) / "old")
            new = fit_vectors(pairs.left, pairs=pairs.right, into=Path(folder) / "old", seed=seed, progress=False)
        sides = {"left": new, "right": before}
        return lambda rows, side, length: np.asarray(sides[side].encode(rows, dim=length), np.float32), {}
    options: dict[str, Any] = {"solver": "neural"} if name == "neural" else {}
    model = ours.fitted(pairs, seed, two_spaces=True, **options)
    return ours.encoder(model), ours.facts(model)


def main(words: list[str] | None = None) -> None:
    given = parser().parse_args(words)
    both = sets.load_pairs(given.data, given.set, NEW, OLD)
    alone = sets.load_pairs(given.data, given.set, OLD)
    parts, old = (sets.split(one, given.seed, given.pairs, given.test) for one in (both, alone))
    lengths = sets.lengths_of(both.right.shape[1])

    def measure(name: str) -> dict[str, Any]:
        encode, about = encoder_of(name, parts.fit, old.fit, given.seed)
        return {"scores": by_length(encode, (old if name == "old" else parts).test, lengths), **about}

    protocol = {"set": given.set, "queries": NEW, "documents": OLD, "pairs": parts.fit.count, "test": parts.test.count}
    measured(given.json, protocol, {"set": given.set, "seed": given.seed}, METHODS, measure)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", type=Path, required=True, help="folder of prepared sets")
    made.add_argument("--json", type=Path, required=True, help="result to write, or to go on with")
    made.add_argument("--set", default="debian")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--pairs", type=int, default=PAIRS)
    made.add_argument("--test", type=int, default=sets.TEST)
    return made


if __name__ == "__main__":
    main()
