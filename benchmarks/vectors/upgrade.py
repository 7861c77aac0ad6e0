"""Queries by a new model on documents by an old one, from a few thousand pairs, without embedding documents again.

    python -m benchmarks.vectors.upgrade --data DATA --json OUT.json --seed 0

Documents were embedded by WordLlama; new queries come from MiniLM. Both models have seen the short and the long
description of 5,000 packages. A pair is a text by the new model with a text of the same package by the old one (four
per package); each kind of text is centred by itself. Rows: the old model alone, ridge regression of old vectors on new
ones, canonical correlations, our two maps (documents are mapped, not embedded again), the neural ones, and a map into
stored codes (`into`: documents stay unchanged). Settings are chosen on held-out pairs among those given.
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
HEADS: tuple[dict[str, Any], ...] = (
    {},
    {"dropout": 0.7, "lr": 3e-3},
    {"dropout": 0.7, "objective_options": {"temperature": 0.05}},
    {"dropout": 0.7, "batch_size": 2048, "objective_options": {"temperature": 0.05}},
    {"dropout": 0.8, "width": 2048, "lr": 3e-3, "batch_size": 2048, "objective_options": {"temperature": 0.05}},
)
"""Settings of the neural heads, of which held-out pairs choose."""
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


def texts_of_things(new: Pairs, old: Pairs) -> Pairs:
    """Pair every text by the new model with every text of the same item by the old one."""
    left = np.concatenate([rows for rows in new for _ in old])
    return Pairs(left, np.concatenate([rows for _ in new for rows in old]))


def centred(pairs: Pairs, means: Pairs) -> Pairs:
    """Subtract the mean of its kind from each text, short or long."""
    return Pairs(pairs.left - means.left, pairs.right - means.right)


def encoder_of(name: str, new: Pairs, old: Pairs, seed: int) -> tuple[Encoder, dict[str, Any]]:
    """Fit a method that searches long texts by the old model with short ones by the new, from items of both."""
    if name == "old":
        return rivals.prefix(old, seed), {}
    if name == "into":
        return _into(new, old, seed), {}
    means = [Pairs(*(rows.mean(0) for rows in side)) for side in (new, old)]
    pairs = texts_of_things(*(centred(side, mean) for side, mean in zip((new, old), means, strict=True)))
    about: dict[str, Any] = {}
    if name in ("ridge", "cca"):
        encode = {"ridge": ridge_map, "cca": rivals.cca}[name](pairs, seed)
    else:
        tried: list[dict[str, Any]] = [{"solver": "neural", **head} for head in HEADS] if name == "neural" else [{}]
        models = [ours.fitted(pairs, seed, two_spaces=True, **options) for options in tried]
        model = max(models, key=lambda one: one.alignment.quality or 0.0)
        settings = tried[models.index(model)]
        encode, about = ours.encoder(model), {**ours.facts(model), "settings": settings}
    middle = {"left": means[0].left, "right": means[1].right}
    return lambda rows, side, length: encode(rows - middle[side], side, length), about


def _into(new: Pairs, old: Pairs, seed: int) -> Encoder:
    """Fit a map into the stored codes of the old model's vectors."""
    pairs = texts_of_things(new, old)
    with tempfile.TemporaryDirectory() as folder:
        before = fit_vectors(old.left, pairs=old.right, seed=seed, progress=False, out=Path(folder) / "old")
        after = fit_vectors(pairs.left, pairs=pairs.right, into=Path(folder) / "old", seed=seed, progress=False)
    sides = {"left": after, "right": before}
    return lambda rows, side, length: np.asarray(sides[side].encode(rows, dim=length), np.float32)


def main(words: list[str] | None = None) -> None:
    given = parser().parse_args(words)
    new, old = (
        sets.split(sets.load_pairs(given.data, given.set, model), given.seed, given.pairs, given.test)
        for model in (NEW, OLD)
    )
    lengths = sets.lengths_of(old.fit.right.shape[1])

    def measure(name: str) -> dict[str, Any]:
        encode, about = encoder_of(name, new.fit, old.fit, given.seed)
        test = old.test if name == "old" else Pairs(new.test.left, old.test.right)
        return {"scores": by_length(encode, test, lengths), **about}

    protocol = {"set": given.set, "queries": NEW, "documents": OLD, "things": new.fit.count, "test": new.test.count}
    methods = given.methods.split(",") if given.methods else METHODS
    job = {"set": given.set, "seed": given.seed}
    measured(given.json, protocol, job, methods, measure, sets.texts(given.data, given.set))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", type=Path, required=True, help="folder of prepared sets")
    made.add_argument("--json", type=Path, required=True, help="result to write or continue")
    made.add_argument("--set", default="debian")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--pairs", type=int, default=PAIRS, help="number of items embedded by both models")
    made.add_argument("--test", type=int, default=sets.TEST)
    made.add_argument("--methods", help="names, separated by commas (default: all)")
    return made


if __name__ == "__main__":
    main()
