"""Codes from pairs: one set, one model, one split, every method, every length.

    python -m benchmarks.vectors.paired --data DATA --json OUT.json --set debian --model minilm --seed 0

Methods are fitted to the pairs outside the test, and their settings are chosen on some of these. Each of 4,000 test
queries then searches for its partner among the 4,000 partners, once. Rows already in the file are kept.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.vectors import rivals, sets, trained, variants
from benchmarks.vectors.ours import encoder, facts, fitted
from benchmarks.vectors.rows import Row, measured
from benchmarks.vectors.scores import Encoder, by_length
from benchmarks.vectors.sets import Pairs, Split
from benchmarks.vectors.trained import Budget

Settings = Mapping[str, Any]
Fit = Callable[[Pairs, int, Settings], tuple[Encoder, dict[str, Any]]]


def _plain(fit: Callable[[Pairs, int], Encoder]) -> Fit:
    return lambda pairs, seed, settings: (fit(pairs, seed), {})


def _trained(fit: Callable[[Pairs, int, Budget], Encoder]) -> Fit:
    return lambda pairs, seed, settings: (fit(pairs, seed, Budget.of(head_settings(settings))), {})


def _linear(pairs: Pairs, seed: int, settings: Settings) -> tuple[Encoder, dict[str, Any]]:
    model = fitted(pairs, seed)
    return encoder(model), facts(model)


def _neural(pairs: Pairs, seed: int, settings: Settings) -> tuple[Encoder, dict[str, Any]]:
    model = fitted(pairs, seed, solver="neural", **settings)
    return encoder(model), {**facts(model), "head_seconds": model.training["seconds"], "settings": dict(settings)}


def chosen(word: str) -> dict[str, Any]:
    """Settings as they are, or the best of a file of variants."""
    found: dict[str, Any] = (
        variants.best(json.loads(Path(word).read_text(encoding="utf-8"))["rows"])
        if word.endswith(".json")
        else json.loads(word)
    )
    return found


def head_settings(settings: Settings) -> dict[str, Any]:
    """The settings of the head alone."""
    return {name: value for name, value in settings.items() if name != "two_spaces"}


def of_settings(settings: Settings) -> Callable[[Row], bool]:
    """Tell of a row whether it has these settings of the neural head, or does not depend on them."""
    return lambda row: row["method"] != "neural" or row.get("settings") == settings


METHODS: Mapping[str, Fit] = {
    "prefix": _plain(rivals.prefix),
    "random": _plain(rivals.random_projection),
    "pca": _plain(rivals.pca),
    "pca-documents": _plain(rivals.pca_documents),
    "pca-whitened": _plain(rivals.pca_whitened),
    "cca": _plain(rivals.cca),
    "linear": _linear,
    "neural": _neural,
    "matryoshka": _trained(trained.matryoshka),
    "csr": _trained(trained.csr),
    "cca-sklearn": _plain(rivals.cca_sklearn),
    "cca-zoo": _plain(rivals.cca_zoo),
}
"""Methods by the name of their row, in the order of measurement."""
SLOW = "cca-sklearn"
"""scikit-learn's CCA takes minutes for few pairs, so it is compared on few."""
ALL_PAIRS = tuple(name for name in METHODS if name not in (SLOW, "cca-zoo"))
FEW_PAIRS = ("prefix", "pca", "cca", "cca-zoo", SLOW, "linear")


def measure(name: str, parts: Split, seed: int, settings: Settings) -> dict[str, Any]:
    """Fit one method and score its codes at every length."""
    began = time.perf_counter()
    encode, about = METHODS[name](parts.fit, seed, settings)
    seconds = time.perf_counter() - began
    lengths = sets.lengths_of(parts.fit.left.shape[1])
    if name == SLOW:
        lengths = [length for length in lengths if length <= rivals.MOST_COMPONENTS]
    return {"scores": by_length(encode, parts.test, lengths), "seconds": seconds, **about}


def main(words: list[str] | None = None) -> None:
    given = parser().parse_args(words)
    pairs = sets.load_pairs(given.data, given.set, given.model)
    parts = sets.split(pairs, given.seed, given.pairs, given.test)
    protocol = {
        "set": given.set,
        "model": given.model,
        "pairs": parts.fit.count,
        "test": parts.test.count,
        **Budget.of(head_settings(given.neural))._asdict(),
    }
    job = {"set": given.set, "model": given.model, "seed": given.seed}
    methods = given.methods.split(",") if given.methods else ALL_PAIRS

    def measured_by(name: str) -> dict[str, Any]:
        return measure(name, parts, given.seed, given.neural)

    current = of_settings(given.neural)
    measured(given.json, protocol, job, methods, measured_by, sets.texts(given.data, given.set), current)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", type=Path, required=True, help="folder of prepared sets")
    made.add_argument("--json", type=Path, required=True, help="result to write or continue")
    made.add_argument("--set", required=True)
    made.add_argument("--model", required=True)
    made.add_argument("--seed", type=int, default=0, help="seed of the split and of everything random")
    made.add_argument("--pairs", type=int, help="pairs to fit to (default: all outside the test)")
    made.add_argument("--test", type=int, default=sets.TEST, help="pairs of the test")
    made.add_argument(
        "--neural", type=chosen, default={}, help="settings of the neural head: JSON, or a result of variants"
    )
    made.add_argument("--methods", help="names, separated by commas (default: all but cca-sklearn and cca-zoo)")
    return made


if __name__ == "__main__":
    main()
