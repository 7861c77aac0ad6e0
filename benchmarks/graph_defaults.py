"""Which defaults suit graphs: variants of the recipe, by the validation accuracy of a logistic probe.

    python benchmarks/graph_defaults.py run --data FOLDER [--sets planetoid_cora ...] [--seconds 400]
    python benchmarks/graph_defaults.py table

Each variant adds one change to the one before it. Nodes are split 10 / 10 / 80; the probe of the encoder's output is
fitted with all training labels and judged on the validation nodes; no test node is looked at. A run that was cut off
goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import torch

import harness
from eigenmap import EigenmapError, fit_graph
from eigenmap.evaluation.nodes import PROBES, Labelled
from graph_jobs import SETS
from graph_tasks import Task, load_task
from pages import table

FILE = harness.RESULTS / "graph-defaults.json"
FORMER: dict[str, Any] = {"objective": "ritz-trace", "blocks": 5, "clip_norm": 1e9, "feature_dropout": 0.0}
"""Before these figures; a norm of 1e9 is never clipped."""
VARIANTS: dict[str, dict[str, Any]] = {
    "ritz-trace, 5 blocks": FORMER,
    "scl": {**FORMER, "objective": "scl"},
    "+ 1 block": {**FORMER, "objective": "scl", "blocks": 1},
    "+ gradients clipped at 1": {**FORMER, "objective": "scl", "blocks": 1, "clip_norm": 1.0},
    "+ half of the features hidden": {"objective": "scl", "blocks": 1, "clip_norm": 1.0, "feature_dropout": 0.5},
    "the same, uniform start": {
        "objective": "scl",
        "blocks": 1,
        "clip_norm": 1.0,
        "feature_dropout": 0.5,
        "start": "uniform",
    },
}
STEPS = {"planetoid_cora": 250, "planetoid_citeseer": 250, "amazon_computers": 600}
"""Short enough for a CPU."""
SEEDS = (0, 1)


def score(task: Task, settings: dict[str, Any], steps: int, seed: int) -> float:
    """Validation accuracy of a probe of the encoder's output."""
    model = fit_graph(task.graph(), 128, steps=steps, seed=seed, device="cpu", progress=False, **settings)
    encoder = torch.cat(list(model.raw(model.input.read(task.x), 4096, source="encoder")))
    split = task.splits[0]
    train, validation = (Labelled(encoder[nodes], task.y[nodes]) for nodes in (split.train, split.validation))
    return PROBES["logistic"](train, validation).accuracy(*validation)


def missing(rows: list[dict[str, Any]], sets: list[str]) -> Iterator[tuple[int, str, str]]:
    """What has not run yet, the first seed of everything first."""
    done = {(row["seed"], row["data"], row["variant"]) for row in rows}
    yield from (case for case in product(SEEDS, sets, VARIANTS) if case not in done)


def run(given: argparse.Namespace) -> None:
    protocol = {"steps": STEPS, "split": "10 / 10 / 80", "probe": "logistic, all training labels"}
    rows = harness.stored_rows(FILE, protocol)
    began = time.monotonic()
    for seed, data, variant in missing(rows, given.sets):
        if time.monotonic() - began > given.seconds:
            return
        task = load_task(given.data, data, "seen", seed, 1)
        row: dict[str, Any] = {"data": data, "variant": variant, "seed": seed}
        try:
            row["validation"] = score(task, VARIANTS[variant], STEPS[data], seed)
        except EigenmapError as error:  # it collapsed or diverged: that is a result too
            row |= {"validation": 0.0, "failed": str(error)}
        rows.append(row)
        print(data, variant, seed, f"{row['validation']:.3f}", flush=True)
        harness.write(
            FILE, {"benchmark": "graph defaults", "protocol": protocol, **harness.environment(), "rows": rows}
        )


def show() -> str:
    """What was found, as Markdown: percent, the mean over seeds."""
    rows = json.loads(FILE.read_text(encoding="utf-8"))["rows"]
    sets = [data for data in SETS if any(row["data"] == data for row in rows)]

    def cell(variant: str, data: str) -> str:
        found = [row["validation"] for row in rows if (row["variant"], row["data"]) == (variant, data)]
        return f"{100 * mean(found):.1f}" if found else "–"

    body = [[variant, *(cell(variant, data) for data in sets)] for variant in VARIANTS]
    return table(["variant", *(SETS[data] for data in sets)], body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("run")
    one.add_argument("--data", type=Path, required=True, help="folder with <set>.npz")
    one.add_argument("--sets", nargs="+", choices=tuple(STEPS), default=list(STEPS))
    one.add_argument("--seconds", type=float, default=400, help="begin no further run after so long")
    verbs.add_parser("table")
    given = parser.parse_args()
    if given.verb == "table":
        print(show())
    else:
        run(given)


if __name__ == "__main__":
    main()
