"""Variants of the neural head, compared on held-out pairs alone: how the settings of its rows are chosen.

    python -m benchmarks.vectors.variants --data DATA --json OUT.json

Each variant is fitted to the pairs of split 0 outside the test, of two sets. The scores are those that the fit itself
finds on the pairs that it holds out; no test pair is looked at. The variant with the highest mean over lengths and sets
serves all rows "neural" of codes from pairs, and its steps and batches serve the trained rivals.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.vectors import sets
from benchmarks.vectors.rows import measured
from eigenmap.data.vectors.vectors import load_vectors
from eigenmap.fitting import pipeline
from eigenmap.fitting.options import RunOptions
from eigenmap.fitting.vectors import VectorTask
from eigenmap.linear.align_pairs import solve
from eigenmap.linear.choice import PairAlignment
from eigenmap.recipes.vectors import NEURAL
from eigenmap.relations.pairs import VectorPairs, partners

SETS = ("debian", "wordnet")
COOLER: dict[str, Any] = {"objective_options": {"temperature": 0.05}}
LARGE: dict[str, Any] = {**COOLER, "batch_size": 2048, "width": 2048}
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "large": {**LARGE, "steps": 2000},
    "large, two maps": {**LARGE, "steps": 2000, "two_spaces": True},
    "large, 4,000 steps": {**LARGE, "steps": 4000},
    "large, two maps, 4,000 steps": {**LARGE, "steps": 4000, "two_spaces": True},
    "large, lengths 8 to 128": {
        **LARGE,
        "steps": 2000,
        "objective_options": {"temperature": 0.05, "lengths": [8, 16, 32, 64, 128]},
    },
    "large, cooler": {**LARGE, "steps": 2000, "objective_options": {"temperature": 0.03}},
    "large, batches of 8,192": {**LARGE, "steps": 1000, "batch_size": 8192},
    "large, dropout 0.2": {**LARGE, "steps": 2000, "dropout": 0.2},
    "large, width 8,192": {**LARGE, "steps": 2000, "width": 8192},
    "large, width 8,192, warmer": {
        **LARGE,
        "steps": 2000,
        "width": 8192,
        "objective_options": {"temperature": 0.07},
    },
    "large, width 8,192, dropout 0.7": {**LARGE, "steps": 2000, "width": 8192, "dropout": 0.7},
    "large, width 16,384": {**LARGE, "steps": 2000, "width": 16384},
    "large, rate 0.003": {**LARGE, "steps": 2000, "lr": 3e-3},
    "large, two maps, rate 0.003": {**LARGE, "steps": 2000, "two_spaces": True, "lr": 3e-3},
    "large, two maps, dropout 0.7": {**LARGE, "steps": 2000, "two_spaces": True, "dropout": 0.7},
    "large, warmer": {**LARGE, "steps": 2000, "objective_options": {"temperature": 0.1}},
    "large, decay 0.1": {**LARGE, "steps": 2000, "weight_decay": 0.1},
    "steps 3,000": {"steps": 3000},
    "two maps": {"two_spaces": True},
    "cooler": COOLER,
}
"""Settings by name, in the order of measurement."""


def texts(data: Path, names: Sequence[str]) -> str | None:
    """Return the digests of the texts of sets, or None if they are not known."""
    found = [sets.texts(data, name) for name in names]
    return " ".join(each for each in found if each is not None) or None


@lru_cache(maxsize=2)
def linear(data: Path, name: str, model: str, test: int, two_spaces: bool) -> tuple[VectorPairs, PairAlignment]:
    """The pairs of split 0 outside the test, and their closed form."""
    fit = sets.split(sets.load_pairs(data, name, model), 0, test=test).fit
    pairs = partners(load_vectors(fit.left), load_vectors(fit.right), 0, two_spaces)
    return pairs, solve(pairs)


def trial(data: Path, name: str, model: str, test: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Held-out scores of one variant on one set."""
    began = time.perf_counter()
    settings = dict(settings)
    pairs, start = linear(data, name, model, test, settings.pop("two_spaces", False))
    recipe = NEURAL.but(**settings, n_components=start.n_components)
    made = pipeline.fit(VectorTask(recipe, pairs, start), RunOptions())
    about = made.training["vectors"]
    scores = {length: {"ndcg@10": value} for length, value in about["scores"]["ours"].items()}
    quality = made.alignment.quality if about["winner"] == "neural" else start.quality
    seconds = {"seconds": time.perf_counter() - began, "head_seconds": made.training["seconds"]}
    return {"scores": scores, "quality": quality, "kept": about["winner"] == "neural", **seconds}


def best(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of the variant with the highest mean quality; those of the library if none was measured."""
    if not rows:
        return {}
    found: dict[str, Any] = max(rows, key=lambda row: row["quality"])["settings"]
    return found


def main(words: list[str] | None = None) -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", type=Path, required=True, help="folder of prepared sets")
    made.add_argument("--json", type=Path, required=True, help="result to write, or to go on with")
    made.add_argument("--model", default="minilm")
    made.add_argument("--sets", default=",".join(SETS), help="names, separated by commas")
    made.add_argument("--test", type=int, default=sets.TEST)
    made.add_argument("--variants", help="how many of the first to compare (default: all)", type=int)
    made.add_argument("--methods", help="names of variants, separated by semicolons (default: all)")
    made.add_argument("--side-by-side", type=int, default=1, help="processes")
    made.add_argument("--best", action="store_true", help="print the best settings as JSON and do nothing else")
    given = made.parse_args(words)
    if given.best:
        print(json.dumps(best(json.loads(given.json.read_text())["rows"] if given.json.is_file() else [])))
        return
    variants = dict(list(VARIANTS.items())[: given.variants])
    if given.methods:
        variants = {name: VARIANTS[name] for name in given.methods.split(";")}
    names = given.sets.split(",")
    with ProcessPoolExecutor(given.side_by_side, get_context("spawn")) as pool:
        trials = {
            (variant, name): pool.submit(trial, given.data, name, given.model, given.test, settings)
            for variant, settings in variants.items()
            for name in names
        }

        def measure(variant: str) -> dict[str, Any]:
            found = {name: trials[variant, name].result() for name in names}
            quality = float(np.mean([one["quality"] for one in found.values()]))
            return {"settings": variants[variant], "quality": quality, "sets": found}

        protocol = {"sets": names, "model": given.model, "test": given.test}
        measured(given.json, protocol, {"seed": 0}, variants, measure, texts(given.data, names))


if __name__ == "__main__":
    main()
