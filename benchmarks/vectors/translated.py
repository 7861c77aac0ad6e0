"""English short descriptions and their translations, by a model that knows little else: two spaces beside deep CCA.

    python -m benchmarks.vectors.translated --data DATA --json OUT.json --seed 0

Each English description searches for its translation. Deep CCA is cca-zoo's `DCCA` with two networks of our head's
size, trained with our batches and steps on the same pairs, then `CCA` on its outputs as cca-zoo advises; its number of
features and its rate are chosen on held-out pairs. `correlation` is the sum of the canonical correlations of the first
32 features on the test pairs.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.vectors import ours, rivals, sets, trained
from benchmarks.vectors.rows import measured
from benchmarks.vectors.scores import Encoder, by_length, ndcg
from benchmarks.vectors.sets import Floats, Pairs, Split

METHODS = ("prefix", "pca", "cca", "one-space", "two-spaces", "neural", "deep-cca")
SETS = {"french": 4_000, "german": 4_000, "japanese": 1_500}
"""Pairs of the test, by language."""
WIDTH = 512
COMPONENTS, RATES = (32, 128), (1e-4, 1e-3)

CORRELATED = 32


def deep_cca(pairs: Pairs, seed: int, parts: Split | None = None) -> tuple[Encoder, dict[str, Any]]:
    """Fit deep CCA with the best of some settings on held-out pairs; `parts` divides the pairs in another way."""
    parts = parts or sets.held_out(pairs, seed)
    lengths = [length for length in sets.LENGTHS if length <= min(COMPONENTS)]
    tried = []
    for components, rate in product(COMPONENTS, RATES):
        encode = _deep_cca(parts.fit, seed, components, rate)
        tried.append((ndcg(encode, parts.test, lengths), encode, {"components": components, "rate": rate}))
    quality, encode, settings = max(tried, key=lambda one: one[0])
    return encode, {"settings": settings, "quality": quality, "tried": [one[0] for one in tried]}


def _deep_cca(pairs: Pairs, seed: int, components: int, rate: float) -> Encoder:
    from cca_zoo.deep import DCCA
    from cca_zoo.linear import CCA

    torch.manual_seed(seed)
    networks = [
        nn.Sequential(nn.Linear(side.shape[1], WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, components))
        for side in pairs
    ]
    model = DCCA(n_components=components, encoders=networks)
    scale = [np.float32(1 / side.std(0).mean()) for side in pairs]
    scaled = Pairs(*(side * size for side, size in zip(pairs, scale, strict=True)))
    model.to(trained.DEVICE)
    budget = trained.Budget.of({})
    trained.fit_steps(
        model.parameters(), scaled, seed, budget, rate, lambda x, y, step: model.loss({"views": [x, y]})["objective"]
    )

    @torch.no_grad()
    def outputs(rows: Floats, side: int) -> Floats:
        return networks[side](torch.from_numpy(rows * scale[side]).to(trained.DEVICE)).cpu().numpy()

    last = CCA(n_components=components).fit([outputs(side, k) for k, side in enumerate(pairs)])
    made: dict[str, tuple[Floats, Floats]] = {}
    for k, name in enumerate(("left", "right")):
        mean = outputs(pairs[k], k).mean(0)
        made[name] = mean, last.weights_[k].astype(np.float32)

    def encode(rows: Floats, side: str, length: int) -> Floats:
        mean, weights = made[side]
        return (outputs(rows, int(side == "right")) - mean) @ weights[:, :length]

    return encode


def encoder_of(name: str, pairs: Pairs, seed: int) -> tuple[Encoder, dict[str, Any]]:
    """A method fitted to translated pairs."""
    plain = {"prefix": rivals.prefix, "pca": rivals.pca, "cca": rivals.cca}
    if name in plain:
        return plain[name](pairs, seed), {}
    if name == "deep-cca":
        return deep_cca(pairs, seed)
    options: dict[str, Any] = {} if name == "one-space" else {"two_spaces": True}
    model = ours.fitted(pairs, seed, **options, **({"solver": "neural"} if name == "neural" else {}))
    return ours.encoder(model), ours.facts(model)


def correlation(encode: Encoder, test: Pairs, length: int = CORRELATED) -> float:
    """Sum of the canonical correlations between the codes of both sides."""
    bases = []
    for rows, side in ((test.left, "left"), (test.right, "right")):
        codes = np.asarray(encode(rows, side, length), np.float64)
        bases.append(np.linalg.qr(codes - codes.mean(0))[0])
    return float(np.linalg.svd(bases[0].T @ bases[1])[1].sum())


def main(words: list[str] | None = None) -> None:
    given = parser().parse_args(words)
    parts = sets.split(sets.load_pairs(given.data, given.set, given.model), given.seed, test=given.test)
    full = sets.lengths_of(parts.fit.left.shape[1])

    def measure(name: str) -> dict[str, Any]:
        encode, about = encoder_of(name, parts.fit, given.seed)
        longest = encode(parts.test.left[:2], "left", full[-1]).shape[1]
        lengths = [length for length in full if length <= max(longest, COMPONENTS[0])]
        return {
            "scores": by_length(encode, parts.test, lengths),
            "correlation": correlation(encode, parts.test),
            **about,
        }

    protocol = {"set": given.set, "model": given.model, "pairs": parts.fit.count, "test": parts.test.count}
    job = {"set": given.set, "model": given.model, "seed": given.seed}
    methods = given.methods.split(",") if given.methods else METHODS
    measured(given.json, protocol, job, methods, measure, sets.texts(given.data, given.set))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", type=Path, required=True, help="folder of prepared sets")
    made.add_argument("--json", type=Path, required=True, help="result to write or continue")
    made.add_argument("--set", default="french")
    made.add_argument("--model", default="minilm")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--test", type=int, default=sets.TEST)
    made.add_argument("--methods", help="names, separated by commas (default: all)")
    return made


if __name__ == "__main__":
    main()
