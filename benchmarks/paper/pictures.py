"""Pictures of the paper at small scale: one ordered model on CIFAR-10.

    python -m benchmarks.paper.pictures --data FOLDER --results FOLDER --figures FOLDER

`--scale tiny` tries the command in seconds.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import DOCS
from benchmarks.common import harness
from benchmarks.common.pages import write_figure
from benchmarks.paper import RESULTS
from eigenmap.reproduce import load_sets, recipe_of
from eigenmap.reproduce.methods import Scale
from eigenmap.reproduce.pictures import exciting_grid, optimised_grid, result_grid
from eigenmap.reproduce.runs import Runs
from eigenmap.reproduce.searches import own_search

NAME = "pictures-cifar10"
STEPS = {"small": 1500, "tiny": 10}


def run(data: Path, figures: Path, scale: Scale = "small") -> dict[str, Any]:
    """Train the ordered form and draw."""
    runs = Runs(load_sets(scale, data))
    recipe = recipe_of("ordered", scale)
    model = runs.model(recipe)
    grid, results = result_grid(model, own_search(runs.sets, 10))
    excite, names = exciting_grid(model, runs.sets.test)
    made, values = optimised_grid(model, STEPS[scale])
    for name, figure in (("grid", grid), ("excite", excite), ("optimise", made)):
        write_figure(figure, figures / f"paper-{name}.png")
    return {
        "benchmark": "pictures",
        "scale": scale,
        "recipe": asdict(recipe),
        **harness.environment(),
        "results": results,
        "exciting": names,
        "optimised": values,
    }


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with cifar10.npz")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--figures", type=Path, default=DOCS / "images")
    parser.add_argument("--scale", choices=("small", "tiny"), default="small")
    given = parser.parse_args(words)
    harness.write(given.results / f"{NAME}.json", run(given.data, given.figures, given.scale))
    print(NAME)


if __name__ == "__main__":
    main()
