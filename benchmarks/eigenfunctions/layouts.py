"""Layouts of the network: one shared trunk, or k separate networks, on the intervals of the main table.

    python -m benchmarks.eigenfunctions.layouts                    # run what is missing, print the table
    python -m benchmarks.eigenfunctions.layouts --seconds 240      # as much of it as fits

Everything else is as in `known.py`, at one rate and with one seed. Separate networks have two widths: that of the
shared trunk (k times the work), and a smaller one at which all of them together have about as many weights.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import harness
from benchmarks.eigenfunctions import RESULTS
from benchmarks.eigenfunctions.known import best, line, warm_up
from benchmarks.eigenfunctions.methods import METHODS, Settings, Trained
from benchmarks.eigenfunctions.problems import PROBLEMS, Problem

FILE = "eigen-layouts.json"
OBJECTIVES = ("alpha-10", "ratio", "trace")
SETTINGS = Settings(rates=(0.01,), seeds=(0,))
SHARED, WIDE, NARROW = "one trunk", "separate, as wide", "separate, as many weights"
INTERVALS, LAYOUTS = ("rbf-1d-1", "rbf-1d-0.3"), (SHARED, NARROW, WIDE)
COUNT = len(INTERVALS) * len(OBJECTIVES) * len(LAYOUTS)
"""Total number of runs."""


@dataclass(frozen=True)
class Layout:
    """A layout of the network on a problem."""

    name: str
    problem: Problem

    @property
    def width(self) -> int:
        """Width of the trunk, or of each of the separate networks."""
        narrow = round(SETTINGS.width / math.sqrt(self.problem.n_components))
        return narrow if self.name == NARROW else SETTINGS.width


def run_missing(path: Path, until: float) -> list[dict[str, Any]]:
    """Run what is missing until the given time; return all results."""
    runs: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []
    done = {(run["problem"], run["method"], run["layout"]) for run in runs}
    for problem in (PROBLEMS[name] for name in INTERVALS):
        for name in OBJECTIVES:
            for layout in (Layout(each, problem) for each in LAYOUTS):
                if (problem.name, name, layout.name) in done or time.monotonic() > until:
                    continue
                method = METHODS[name]
                assert isinstance(method, Trained)
                method = replace(method, separate=layout.name != SHARED)
                run = best(problem, method, 0, SETTINGS.rates, replace(SETTINGS, width=layout.width))
                about = {"problem": problem.name, "method": name, "title": method.title, "layout": layout.name}
                runs.append({**about, "width": layout.width, "seed": 0, **run, **harness.environment()})
                harness.write(path, {"settings": asdict(SETTINGS), "runs": runs})
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no run after this many seconds")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="folder of results")
    words = parser.parse_args()
    torch.set_num_threads(1)
    warm_up()
    for run in run_missing(words.folder / FILE, time.monotonic() + words.seconds):
        print(f"{run['problem']}, {run['layout']} of width {run['width']}\n{line(run['method'], 0, run)}")


if __name__ == "__main__":
    main()
