"""Emoji pictures and their names: two spaces of different models beside deep CCA.

    python -m benchmarks.vectors.emoji --data DATA --json OUT.json --seed 0

A split draws 400 emoji for the test; their pictures, of either artwork, are seen by nothing. Both artworks of the
others are fitted to. Each test picture of the first artwork then looks for its name among the 400.

"neural" is the head with the settings of the library. "neural-chosen" is the best of a few settings on the pairs that
its fit holds out. The settings of deep CCA are chosen on the same pairs, at the same lengths.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.vectors import ours, sets, translated
from benchmarks.vectors.rows import measured
from benchmarks.vectors.scores import Encoder, by_length
from benchmarks.vectors.sets import Pairs, Split
from benchmarks.vectors.translated import COMPONENTS, correlation
from eigenmap.data.vectors.vectors import Vectors
from eigenmap.relations.pairs import partners

METHODS = ("cca", "two-spaces", "neural", "deep-cca", "neural-chosen")
TEST = 400
SETTINGS: tuple[dict[str, Any], ...] = tuple(
    {"n_components": components, "dropout": dropout, "objective_options": {"temperature": temperature}}
    for components, dropout, temperature in product((None, COMPONENTS[0]), (0.5, 0.8), (0.1, 0.05))
)


def split(data: Path, seed: int, test: int = TEST) -> Split:
    """Pictures and names, divided by emoji."""
    pictures, names = sets.load(data, "emoji", "left", "efficientnet"), sets.load(data, "emoji", "right", "minilm")
    name_of = np.load(data / "emoji" / "names.npy")
    held = np.random.default_rng((seed, 37)).permutation(len(names))[:test]
    fit = ~np.isin(name_of, held)
    asked = [int(np.flatnonzero(name_of == name)[0]) for name in held]
    return Split(Pairs(pictures[fit], names[name_of[fit]]), Pairs(pictures[asked], names[held]))


def chosen(pairs: Pairs, seed: int) -> tuple[Encoder, dict[str, Any]]:
    """Fit heads with all settings; return that with the best mean nDCG@10 of held-out pairs, up to 32 features."""
    tried = []
    for number, settings in enumerate(SETTINGS):
        model = ours.fitted(pairs, seed, two_spaces=True, solver="neural", **settings)
        scores = model.training["vectors"]["scores"]["ours"]
        short = [scores[str(length)] for length in sets.LENGTHS if length <= min(COMPONENTS)]
        tried.append((float(np.mean(short)), -number, model, settings))
    quality, _, model, settings = max(tried, key=lambda one: one[:2])
    about = {"settings": settings, "quality": quality, "tried": [one[0] for one in tried]}
    return ours.encoder(model), {**ours.facts(model), **about}


def held_out(pairs: Pairs, seed: int) -> Split:
    """Hold out the pairs that our fits hold out: none of a name that is fitted to."""
    found = partners(Vectors(pairs.left), Vectors(pairs.right), seed)
    return Split(pairs.take(found.fit[0].i), pairs.take(found.held_out[0].i))


def encoder_of(name: str, pairs: Pairs, seed: int) -> tuple[Encoder, dict[str, Any]]:
    """A method fitted to pictures and names."""
    if name == "neural-chosen":
        return chosen(pairs, seed)
    if name == "deep-cca":
        return translated.deep_cca(pairs, seed, held_out(pairs, seed))
    return translated.encoder_of(name, pairs, seed)


def main(words: list[str] | None = None) -> None:
    given = parser().parse_args(words)
    parts = split(given.data, given.seed, given.test)

    def measure(name: str) -> dict[str, Any]:
        encode, about = encoder_of(name, parts.fit, given.seed)
        longest = encode(parts.test.right[:2], "right", parts.fit.right.shape[1]).shape[1]
        lengths = [length for length in sets.LENGTHS if length <= max(longest, COMPONENTS[0])]
        shared = min(COMPONENTS[0], longest)
        return {
            "scores": by_length(encode, parts.test, lengths),
            "correlation": correlation(encode, parts.test, shared),
            **about,
        }

    protocol = {"set": "emoji", "pairs": parts.fit.count, "test": parts.test.count}
    methods = given.methods.split(",") if given.methods else METHODS
    measured(given.json, protocol, {"seed": given.seed}, methods, measure)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", type=Path, required=True, help="folder of prepared sets")
    made.add_argument("--json", type=Path, required=True, help="result to write, or to go on with")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--test", type=int, default=TEST, help="emoji of the test")
    made.add_argument("--methods", help="names, separated by commas (default: all)")
    return made


if __name__ == "__main__":
    main()
