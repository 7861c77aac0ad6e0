"""Which runs of the retrieval study are missing, highest value first, with the seconds each is likely to take.

    python benchmarks/plan.py [--results benchmarks/results]

Screening finds each method's rate (20 epochs, one seed, by kNN on held-out training images); finals run 50 epochs at
that rate. A final is planned only once the screening of its method is complete.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
from jobs import METHODS, Job

LEADING = ("matryoshka-scl", "scl", "paper", "nested")
SCREENED = ("nested", "scl", "matryoshka-scl", "gram", "paper")
OTHERS = tuple(name for name in METHODS if name not in SCREENED)
SCREENING_EPOCHS, FINAL_EPOCHS, SEEDS = 20, 50, (0, 1, 2)

IMAGES_PER_SECOND = float(os.environ.get("EIGENMAP_IMAGES_PER_SECOND", 24_000))
"""Of the whole card, all processes together; measured on one H200."""
OVERHEAD = 25.0
"""Seconds of a job that are not training: starting, compiling, measuring."""
TRAINING_IMAGES = {"cifar10": 45_000}


def seconds(job: Job) -> float:
    """How long the job would take with the card to itself."""
    return job.epochs * TRAINING_IMAGES[job.data] / IMAGES_PER_SECOND + OVERHEAD / 4


def missing(results: Path, stage: str = "all") -> list[Job]:
    """Jobs without a result file, in the order in which they should run."""
    done = {path.stem for path in results.glob("retrieval-*.json")}
    stages = {"screening": _screening, "finals": _finals, "others": _others}
    planned = [job for name, jobs in stages.items() if stage in ("all", name) for job in jobs(results)]
    return [job for job in planned if job.name not in done]


def _screening(results: Path) -> Iterator[Job]:
    # The middle rate of every method first: if time runs out, every method has been looked at.
    for place in (1, 2, 0):
        for method in SCREENED:
            yield Job("cifar10", method, METHODS[method].rates[place], SCREENING_EPOCHS)


def _finals(results: Path) -> Iterator[Job]:
    for seed in SEEDS:
        for method in LEADING:
            rate = best_rate(results, method)
            if rate is not None:
                yield Job("cifar10", method, rate, FINAL_EPOCHS, seed)


def _others(results: Path) -> Iterator[Job]:
    for method in ("gram", *OTHERS):
        rate = best_rate(results, method) or METHODS[method].rates[1]
        yield Job("cifar10", method, rate, FINAL_EPOCHS)


def best_rate(results: Path, method: str) -> float | None:
    """The rate with the best held-out kNN accuracy in the screening; None until all three ran."""
    scores = {}
    for rate in METHODS[method].rates:
        path = results / f"{Job('cifar10', method, rate, SCREENING_EPOCHS).name}.json"
        if not path.is_file():
            return None
        scores[rate] = json.loads(path.read_text()).get("knn_held_out", 0.0)
    return max(scores, key=lambda rate: scores[rate])


def summary(result: dict[str, Any]) -> str:
    """A few lines that say how a run went."""
    job = result["job"]
    head = f"{job['method']} lr {job['rate']:g} {job['epochs']} epochs seed {job['seed']}"
    if "collapsed" in result:
        return f"{head}: {result['collapsed'][:150]}"
    lines = [
        f"{head}: kNN {result['knn_held_out']:.3f} held out, {result['knn_test']:.3f} test, "
        f"linear {result['linear_ridge_test']:.3f}, {steady(result):,.0f} images/s, "
        f"{result['seconds_training']:.0f}+{result['seconds_measuring']:.0f} s, chose {result['chosen_source']} "
        + " ".join(
            f"{s[:4]} t={a['t']:g} r={a['ridge']:g} q={a['quality']:.3f}" for s, a in result["alignment"].items()
        )
    ]
    for name, rows in result["retrieval"].items():
        if " ridge " in name:
            continue
        values = " ".join(f"{row['map_over_found@1000']:.3f}" for row in rows)
        lines.append(f"   {name:26} {values}")
    return "\n".join(lines)


def steady(result: dict[str, Any]) -> float:
    """Images per second once everything is compiled: the median over the records of the run."""
    return statistics.median(record["images_per_second"] for record in result["history"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=harness.RESULTS)
    parser.add_argument("--stage", default="all")
    parser.add_argument("--summary", action="store_true", help="print what ran instead")
    given = parser.parse_args()
    if given.summary:
        for path in sorted(given.results.glob("retrieval-*.json")):
            print(summary(json.loads(path.read_text())))
        return
    jobs = missing(given.results, given.stage)
    for job in jobs:
        print(f"{seconds(job):6.0f} s  {job.name}")
    print(f"{sum(map(seconds, jobs)):6.0f} s  {len(jobs)} runs missing")


if __name__ == "__main__":
    main()
