"""Variants of the neural head, compared on held-out pairs to choose its defaults.

    python -m benchmarks.vectors.variants --data DATA --json OUT.json

Each variant is a short fit on the pairs of split 0 outside the test; scores are those that `fit_vectors` measures on
its own held-out pairs. Test pairs are not used.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.vectors import ours, sets
from benchmarks.vectors.rows import measured

SHORT: dict[str, Any] = {"solver": "neural", "n_components": 128, "steps": 300}
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "no dropout": {"dropout": 0.0},
    "dropout 0.7": {"dropout": 0.7},
    "rate 0.003": {"lr": 3e-3},
    "temperature 0.05": {"objective_options": {"temperature": 0.05}},
    "width 1,024": {"width": 1024},
    "batches of 1,024": {"batch_size": 1024},
}


def main(words: list[str] | None = None) -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", type=Path, required=True, help="folder of prepared sets")
    made.add_argument("--json", type=Path, required=True, help="result to write or continue")
    made.add_argument("--set", default="debian")
    made.add_argument("--model", default="minilm")
    made.add_argument("--test", type=int, default=sets.TEST)
    given = made.parse_args(words)
    parts = sets.split(sets.load_pairs(given.data, given.set, given.model), 0, test=given.test)

    def measure(name: str) -> dict[str, Any]:
        model = ours.fitted(parts.fit, 0, **{**SHORT, **VARIANTS[name]})
        scores = model.training["vectors"]["scores"]
        told = {length: {"ndcg@10": value} for length, value in scores["ours"].items()}
        return {"scores": told, "kept": model.training["vectors"]["winner"] == "neural", "linear": scores.get("linear")}

    protocol = {"set": given.set, "model": given.model, "pairs": parts.fit.count, **SHORT}
    measured(given.json, protocol, {"seed": 0}, VARIANTS, measure)


if __name__ == "__main__":
    main()
