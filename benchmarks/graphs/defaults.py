"""Defaults for graphs: variants of the recipe, by the validation accuracy of a logistic probe.

    python -m benchmarks.graphs.defaults [--study recipe | width] --data FOLDER [--sets ...] [--seconds 400]

In the recipe study each variant adds one change to the previous one; in the width study only the width changes. Nodes
are split 10 / 10 / 80. The probe of the encoder's output is fitted with all training labels and scored on the
validation nodes; test nodes are not used. An interrupted run continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from benchmarks.common import harness
from benchmarks.common.pages import table
from benchmarks.graphs import RESULTS
from benchmarks.graphs.jobs import SETS
from benchmarks.graphs.tasks import Task, load_task
from eigenmap import fit_graph
from eigenmap.evaluation.nodes import PROBES, Labelled
from eigenmap.training import CollapseError, DivergedError

FORMER: dict[str, Any] = {"objective": "ritz-trace", "blocks": 5, "clip_norm": 1e9, "feature_dropout": 0.0}
"""Defaults before this study; a norm of 1e9 is never clipped."""
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
"""Numbers of steps, few enough for a CPU."""


@dataclass(frozen=True)
class Study:
    """Variations, training steps per set, and seeds."""

    file: str
    variants: Mapping[str, Mapping[str, Any]]
    steps: Mapping[str, int]
    seeds: tuple[int, ...]


STUDIES = {
    "recipe": Study("graph-defaults.json", VARIANTS, STEPS, (0, 1)),
    "width": Study(
        "graph-widths.json",
        {f"width {width:,}": {"width": width} for width in (256, 512, 1024)},
        {**STEPS, "debian_bookworm": 1500},
        (0,),
    ),
}


def score(task: Task, settings: Mapping[str, Any], steps: int, seed: int) -> float:
    """Validation accuracy of a probe of the encoder's output."""
    model = fit_graph(task.graph(), 128, steps=steps, seed=seed, device="cpu", progress=False, **settings)
    encoder = torch.cat(list(model.raw(model.input.read(task.x), 4096, source="encoder")))
    split = task.splits[0]
    train, validation = (Labelled(encoder[nodes], task.y[nodes]) for nodes in (split.train, split.validation))
    return PROBES["logistic"](train, validation).accuracy(*validation)


def missing(study: Study, rows: list[dict[str, Any]], sets: list[str]) -> Iterator[tuple[int, str, str]]:
    """Return the jobs that have not run yet, the first seed of everything first."""
    done = {(row["seed"], row["data"], row["variant"]) for row in rows}
    yield from (case for case in product(study.seeds, sets, study.variants) if case not in done)


def run(given: argparse.Namespace) -> None:
    study = STUDIES[given.study]
    protocol = {"steps": dict(study.steps), "split": "10 / 10 / 80", "probe": "logistic, all training labels"}
    path = given.folder / study.file
    rows = harness.stored_rows(path, protocol)
    began = time.monotonic()
    for seed, data, variant in missing(study, rows, given.sets or list(study.steps)):
        if time.monotonic() - began > given.seconds:
            return
        task = load_task(given.data, data, "seen", seed, 1)
        row: dict[str, Any] = {"data": data, "variant": variant, "seed": seed}
        try:
            row["validation"] = score(task, study.variants[variant], study.steps[data], seed)
        except (CollapseError, DivergedError) as error:  # that is a result too
            row |= {"validation": 0.0, "failed": str(error)}
        rows.append(row)
        print(data, variant, seed, f"{row['validation']:.3f}", flush=True)
        about = {"benchmark": "graph defaults", "protocol": protocol, **harness.environment()}
        harness.write(path, about | {"rows": rows})


def show(study: Study, folder: Path = RESULTS) -> str:
    """Return the results as Markdown: percent, mean over seeds."""
    rows = json.loads((folder / study.file).read_text(encoding="utf-8"))["rows"]
    sets = [data for data in SETS if any(row["data"] == data for row in rows)]

    def cell(variant: str, data: str) -> str:
        found = [row["validation"] for row in rows if (row["variant"], row["data"]) == (variant, data)]
        return f"{100 * mean(found):.1f}" if found else "–"

    body = [[variant, *(cell(variant, data) for data in sets)] for variant in study.variants]
    return table(["variant", *(SETS[data] for data in sets)], body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with <set>.npz")
    parser.add_argument("--study", choices=STUDIES, default="recipe")
    parser.add_argument("--sets", nargs="+", choices=SETS, help="subset of the study's sets")
    parser.add_argument("--seconds", type=float, default=400, help="start no run after this many seconds")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="folder of results")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
