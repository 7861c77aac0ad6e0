"""Test cost: all nodes and one node of a generated graph of OGBN-Products' size, for both methods.

    python -m benchmarks.paper.cost --results FOLDER --device cuda

`--scale tiny` tries the command in seconds.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import harness
from benchmarks.paper import RESULTS
from eigenmap.reproduce.inference_cost import SIZES, inference_cost, random_neighbours
from eigenmap.reproduce.methods import Scale

NAME = "test-cost"


def run(device: str, scale: Scale = "small") -> dict[str, Any]:
    """Time both methods."""
    size, place = SIZES[scale], torch.device(device)
    x = torch.randn(size.nodes, size.features, generator=torch.Generator(place).manual_seed(0), device=place)
    neighbours = random_neighbours(size, place)
    return {
        "benchmark": "test-cost",
        "protocol": "seconds, median; random weights; a generated graph of the size of OGBN-Products",
        "scale": scale,
        "size": asdict(size),
        "entries": len(neighbours.columns),
        **harness.environment(),
        "rows": inference_cost(size, place, neighbours, x, repeat=2),
    }


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--scale", choices=("small", "tiny"), default="small")
    given = parser.parse_args(words)
    harness.write(given.results / f"{NAME}.json", run(given.device, given.scale))
    print(NAME)


if __name__ == "__main__":
    main()
