"""Figure of the Gaussian kernel: functions learned by the paper's objective and by `NeuralEigenmap`, on a CPU.

    python -m benchmarks.paper.gaussian --results FOLDER --seed 0

Settings are those of `eigenmap reproduce figure-rbf`, which draws the figure. `--scale tiny` tries the command.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.common import harness
from benchmarks.common.plan import Stored
from benchmarks.paper import RESULTS
from eigenmap.cli.figures import reproduce
from eigenmap.cli.figures.reproduce import figure_summary, learn_rbf, learn_rbf_as_published
from eigenmap.reproduce.methods import Scale

NAME = "figure-rbf-s{seed}"
SEEDS = (0, 1, 2)
LENGTH_SCALE, FUNCTIONS, PAPER_FUNCTIONS, POINTS = 1.0, 10, 3, 1024


def run(seed: int, scale: Scale = "small") -> dict[str, Any]:
    """Learn both ways and compare with the true functions."""
    points, steps = (POINTS, reproduce.PAPER_STEPS) if scale == "small" else reproduce.TINY
    ours = learn_rbf(LENGTH_SCALE, FUNCTIONS, points, seed)
    paper = learn_rbf_as_published(LENGTH_SCALE, PAPER_FUNCTIONS, points, seed, steps, print)
    return {
        "benchmark": "figure-rbf",
        "protocol": "alignment |<psi_j, phi_j>| on 2,048 evenly spaced positions; learned from random positions",
        "job": {"seed": seed},
        "scale": scale,
        "length_scale": LENGTH_SCALE,
        "points": points,
        **harness.environment(),
        "ours": figure_summary(ours),
        "paper": figure_summary(paper)
        | {"alpha": reproduce.PAPER_ALPHA, "width": reproduce.PAPER_WIDTH, "steps": steps},
    }


def stored_results(stored: Stored) -> list[dict[str, Any]]:
    """Return the finished runs, one per seed."""
    found = [stored.read(NAME.format(seed=seed)) for seed in SEEDS]
    return [result for result in found if result is not None]


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", choices=("small", "tiny"), default="small")
    given = parser.parse_args(words)
    name = NAME.format(seed=given.seed)
    result = run(given.seed, given.scale)
    harness.write(given.results / f"{name}.json", result)
    print(name, [round(value, 3) for value in result["paper"]["alignment"]])


if __name__ == "__main__":
    main()
