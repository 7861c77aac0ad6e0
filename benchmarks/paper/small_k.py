"""Retrieval figure with few features: projectors of 128 outputs and 8,192 hidden units, on CIFAR-10.

    python -m benchmarks.paper.small_k --data FOLDER --results FOLDER --seed 0

Codes are raw projector outputs: ordered ones in their own order, the others as ten draws of random features. Queries
are the first 2,000 test images, and the gallery is all training images. `--scale tiny` tries the command in seconds.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import harness
from benchmarks.paper import RESULTS
from benchmarks.vision.sets import QUERIES
from eigenmap.reproduce import load_sets
from eigenmap.reproduce.methods import Scale
from eigenmap.reproduce.retrieval import COMPARED, retrieval_recipe, retrieval_scores
from eigenmap.reproduce.runs import Runs
from eigenmap.reproduce.searches import Search

NAME = "small-k-cifar10-s{seed}"
TOP = 1000
PROTOCOL = "mAP and precision of 2,000 test images against all training images, cosine, final epoch"


def run(data: Path, seed: int, scale: Scale = "small") -> dict[str, Any]:
    """Train the three methods and score them."""
    sets = load_sets(scale, data)
    asked = sets.test.subset(torch.arange(min(len(sets.test), QUERIES["cifar10"])))
    search = Search("cifar10", sets.train, asked, TOP)
    return {
        "benchmark": "small-k",
        "protocol": PROTOCOL,
        "job": {"seed": seed},
        "scale": scale,
        "recipes": {method: asdict(retrieval_recipe(method, scale, small_k=True)) for method in COMPARED},
        **harness.environment(),
        "retrieval": retrieval_scores(scale, Runs(sets, seed), [search], small_k=True)["cifar10"],
    }


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with cifar10.npz")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", choices=("small", "tiny"), default="small")
    given = parser.parse_args(words)
    name = NAME.format(seed=given.seed)
    harness.write(given.results / f"{name}.json", run(given.data, given.seed, given.scale))
    print(name)


if __name__ == "__main__":
    main()
