"""Summaries of finished runs of the vision study, a few lines per run.

python -m benchmarks.vision.summary [FOLDER]
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.common.plan import Stored
from benchmarks.vision import RESULTS


def summary(result: dict[str, Any]) -> str:
    """Summarise a run in a few lines."""
    job = result["job"]
    head = (
        f"{job['data']} {job['method']} lr {job['rate']:g} {job['epochs']} epochs k {job['n_components']} "
        f"batch {job['batch_size']} seed {job['seed']}"
    )
    if "collapsed" in result:
        return f"{head}: {result['collapsed'][:150]}"
    figures = [
        f"{words} {result[name]:.3f}"
        for name, words in (("knn_held_out", "kNN held out"), ("knn_test", "test"), ("linear_ridge_test", "linear"))
        if name in result
    ]
    figures += [
        f"{steady(result):,.0f} images/s",
        f"{result['seconds_training']:.0f}+{result['seconds_measuring']:.0f} s",
    ]
    if "chosen_source" in result:
        figures.append(f"chose {result['chosen_source']}")
    for source, a in result.get("alignment", {}).items():
        figures.append(f"{source} t={a['t']:g} ridge={a['ridge']:g} captured={a['quality']:.3f}")
    lines = [f"{head}: {', '.join(figures)}"]
    for name, rows in result.get("retrieval", {}).items():
        lines.append(f"   {name:26} " + " ".join(f"{row['map_over_found@1000']:.3f}" for row in rows))
    return "\n".join(lines)


def steady(result: dict[str, Any]) -> float:
    """Return images per second once everything is compiled: the median over the records of the run."""
    return float(statistics.median(record["images_per_second"] for record in result["history"]))


def main() -> None:
    stored = Stored(*(map(Path, sys.argv[1:]) if sys.argv[1:] else [RESULTS]))
    for name in sorted(stored.paths):
        result = stored.read(name)
        if result is not None and "job" in result:
            print(summary(result))


if __name__ == "__main__":
    main()
