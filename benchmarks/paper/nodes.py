"""Table 6 at small scale: four rivals, the paper's two forms on node blocks, our default and raw features.

    python -m benchmarks.paper.nodes --data FOLDER --results FOLDER --graph amazon_computers --seed 0

The paper's probe, ten splits or draws of the labels. The graph study has the rivals too, tuned, with other splits.
`--scale tiny` tries the command in seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.common import harness
from benchmarks.graphs.jobs import SETS
from benchmarks.paper import RESULTS
from eigenmap.reproduce import load_labelled_graph, table_6
from eigenmap.reproduce.methods import Scale

NAME = "table-6-{graph}-s{seed}"
RUNS = 10


def run(file: Path, graph: str, seed: int, scale: Scale = "small") -> dict[str, Any]:
    """Train and probe every method."""
    nodes = load_labelled_graph(scale, str(file))
    return {
        "benchmark": "table-6",
        "protocol": f"the paper's linear probe of the encoder's output, mean and deviation of {RUNS} splits; rivals: "
        "three layers of width 256, BatchNorm, dropout 0.5, 100 epochs, best validation epoch",
        "job": {"graph": graph, "seed": seed},
        "scale": scale,
        **harness.environment(),
        "rows": table_6(scale, nodes, runs=RUNS if scale == "small" else 2, seed=seed),
    }


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with GRAPH.npz")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--graph", choices=SETS, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", choices=("small", "tiny"), default="small")
    given = parser.parse_args(words)
    name = NAME.format(graph=given.graph, seed=given.seed)
    result = run(given.data / f"{given.graph}.npz", given.graph, given.seed, given.scale)
    harness.write(given.results / f"{name}.json", result)
    print(name)


if __name__ == "__main__":
    main()
