"""Which runs of the study of node codes are missing, highest value first, with the seconds each is likely to take.

    python -m benchmarks.graphs.plan list                 # what is missing
    python -m benchmarks.graphs.plan summary              # what the finished runs found, on validation labels
    python -m benchmarks.graphs.plan sweep --data FOLDER --seconds 560 --side-by-side 8
    python -m benchmarks.graphs.plan sweep --data FOLDER --seconds 280 --side-by-side 1 --device cpu

Stages, in the order in which they are worth running:

| stage     | runs |
| --------- | --- |
| relations | screening on validation labels: which relation suits a set, with the form "scl" |
| forms     | screening: "scl" and "nested" on that relation; the best is ours |
| ours      | ours, seed 0, whole graph |
| rivals    | MLP, GCN, node2vec and Laplacian eigenmap, seed 0, whole graph |
| unseen    | ours, MLP and GCN without a fifth of the nodes, seed 0 |
| late      | GCN on sampled neighbourhoods, and BGRL with and without those nodes, seed 0 |
| cost      | seconds of inference, ours and GCN |
| others    | the forms that are not ours, seed 0, whole graph |
| seeds     | ours, the rivals and the unseen runs with seeds 1 and 2 |

A run is finished if its file is in `--results` (benchmarks/graphs/results). What needs a choice waits until the
screening for it is complete on that set. Costs are times, so they are measured one job at a time (`--side-by-side 1`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.graphs import RESULTS, quality
from benchmarks.graphs import cost as graph_cost
from benchmarks.graphs.jobs import (
    CANDIDATES,
    COST,
    DENSE,
    FORMS,
    FURTHER,
    LENGTH,
    RELATIONS,
    RIVALS,
    SETS,
    Job,
    Setting,
)

SEEDS = (0, 1, 2)
UNSEEN_RIVALS = ("mlp", "gcn", "bgrl")
LATE = ("gcn-sampled", "bgrl")
"""The slowest, of which the least depends."""

# Seconds on one H200 that eight jobs and others share, as the first sweep took: many small kernels that wait for each
# other.
START = 12.0
SECONDS: Mapping[str, float] = {"mlp": 15, "laplacian": 30, "node2vec": 90, "gcn": 45, "gcn-sampled": 60, "bgrl": 230}
OURS_PER_STEP, OURS_MEASURING, SCREENING = 0.03, 60.0, 20.0
SIZE: Mapping[str, float] = {
    "amazon_computers": 1.0,
    "coauthor_physics": 1.5,
    "debian_bookworm": 2.0,
    "planetoid_cora": 0.5,
    "planetoid_citeseer": 0.5,
}
ON_A_CPU = 10.0
"""How many times as long a job takes on one CPU core."""


def seconds(job: Job, device: str = "cuda") -> float:
    """How long a job is likely to take."""
    if job.method == COST:
        work = 20.0
    elif job.ours:
        measuring = SCREENING if job.screening else OURS_MEASURING * SIZE[job.data]
        work = LENGTH[job.data][0] * OURS_PER_STEP + measuring
    else:
        work = SECONDS[job.method] * SIZE[job.data]
    return START + work * (ON_A_CPU if device == "cpu" else 1.0)


class Finished:
    """The runs that have a result."""

    def __init__(self, *folders: Path) -> None:
        paths = {path.stem: path for folder in (folders or (RESULTS,)) for path in folder.glob("*.json")}
        self.results = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items()}

    def __contains__(self, job: Job) -> bool:
        return job.name in self.results

    def validation(self, job: Job) -> float | None:
        """What a screened job is worth: the mean of the linear probe and the better MLP head; None if it is missing."""
        result = self.results.get(job.name)
        if result is None:
            return None
        found = result.get("validation", {"logistic": 0.0, "mlp": 0.0, "mlp and raw": 0.0})  # it collapsed
        return (found["logistic"] + max(found["mlp"], found["mlp and raw"])) / 2

    def relation(self, data: str) -> str | None:
        """The relation chosen for a set; None until all of `RELATIONS` ran there."""
        jobs = {name: Job(data, "scl", relation=name, screening=True) for name in (*RELATIONS, *FURTHER)}
        needed = all(jobs[name] in self for name in RELATIONS)
        return self._best({name: job for name, job in jobs.items() if job in self}) if needed else None

    def form(self, data: str) -> str | None:
        """The form that is ours on a set; None until all candidates ran there."""
        relation = self.relation(data)
        if relation is None:
            return None
        return self._best({name: Job(data, name, relation=relation, screening=True) for name in CANDIDATES})

    def _best(self, jobs: Mapping[str, Job]) -> str | None:
        scores = {name: self.validation(job) for name, job in jobs.items()}
        known = {name: score for name, score in scores.items() if score is not None}
        return max(known, key=lambda name: known[name]) if len(known) == len(jobs) else None

    def ours(self, data: str, setting: Setting = "seen", seed: int = 0) -> list[Job]:
        """The job of ours on a set, if it is known."""
        relation, form = self.relation(data), self.form(data)
        return [] if relation is None or form is None else [Job(data, form, setting, seed, relation)]


def relations(finished: Finished) -> Iterator[Job]:
    # The first relation on every set first: if time runs out, every set has been looked at.
    yield from (Job(data, "scl", relation=name, screening=True) for name in RELATIONS for data in SETS)
    yield from (Job(data, "scl", relation=name, screening=True) for name in FURTHER for data in DENSE)


def forms(finished: Finished) -> Iterator[Job]:
    for form, data in product(CANDIDATES, SETS):
        relation = finished.relation(data)
        if relation is not None:
            yield Job(data, form, relation=relation, screening=True)


def ours(finished: Finished) -> Iterator[Job]:
    for data in SETS:
        yield from finished.ours(data)


def rivals(finished: Finished) -> Iterator[Job]:
    yield from (Job(data, method) for method in RIVALS if method not in LATE for data in SETS)


def unseen(finished: Finished) -> Iterator[Job]:
    yield from (job for job in _withheld(finished, 0) if job.method not in LATE)


def late(finished: Finished) -> Iterator[Job]:
    yield from (Job(data, method) for method in LATE for data in SETS)
    yield from (job for job in _withheld(finished, 0) if job.method in LATE)


def _withheld(finished: Finished, seed: int) -> Iterator[Job]:
    for data in SETS:
        yield from finished.ours(data, "unseen", seed)
        yield from (Job(data, method, "unseen", seed) for method in UNSEEN_RIVALS)


def cost(finished: Finished) -> Iterator[Job]:
    yield from (Job(data, COST) for data in SETS)


def others(finished: Finished) -> Iterator[Job]:
    for form, data in product(FORMS, SETS):
        relation = finished.relation(data)
        if relation is not None:
            yield Job(data, form, relation=relation)


def seeds(finished: Finished) -> Iterator[Job]:
    jobs = [job for seed in SEEDS[1:] for job in _everything(finished, seed)]
    yield from sorted(jobs, key=lambda job: job.method in LATE)


def _everything(finished: Finished, seed: int) -> Iterator[Job]:
    for data in SETS:
        yield from finished.ours(data, "seen", seed)
        yield from (Job(data, method, "seen", seed) for method in RIVALS)
    yield from _withheld(finished, seed)


STAGES: Mapping[str, Callable[[Finished], Iterator[Job]]] = {
    "relations": relations,
    "forms": forms,
    "ours": ours,
    "rivals": rivals,
    "unseen": unseen,
    "late": late,
    "cost": cost,
    "others": others,
    "seeds": seeds,
}


def missing(finished: Finished, stage: str = "all", only: str | None = None) -> list[Job]:
    """Jobs without a result, in the order in which they should run; ours waits until a set's relation is settled."""
    planned = [job for name, jobs in STAGES.items() if stage in ("all", name) for job in jobs(finished)]
    unsettled = {job.data for job in relations(finished) if job not in finished}
    return [
        job
        for job in dict.fromkeys(planned)
        if job not in finished
        and only in (None, job.data)
        and (job.screening or not job.ours or job.data not in unsettled)
    ]


def sweep(given: argparse.Namespace) -> None:
    """Run missing jobs, several side by side, as long as they are likely to finish in time."""
    deadline = time.monotonic() + given.seconds
    running: dict[Job, subprocess.Popen[bytes]] = {}
    started: set[Job] = set()
    threads = max(1, (os.cpu_count() or 1) // given.side_by_side)
    environment = {"OMP_NUM_THREADS": str(threads)} | os.environ
    given.results.mkdir(parents=True, exist_ok=True)
    while True:
        for job in [job for job, process in running.items() if process.poll() is not None]:
            print("done " if running.pop(job).returncode == 0 else "FAILED", job.name, flush=True)
        left = deadline - time.monotonic()
        for job in missing(Finished(given.results), given.stage, given.only):
            if len(running) >= given.side_by_side:
                break
            absent = not (given.data / f"{job.data}.npz").is_file()
            disturbed = job.method == COST and given.side_by_side > 1
            if job in started or absent or disturbed or seconds(job, given.device) > left:
                continue
            started.add(job)
            with (given.results / f"{job.name}.log").open("wb") as log:
                running[job] = subprocess.Popen(command(given, job), stdout=log, stderr=log, env=environment)
            print("start", job.name, flush=True)
        if not running:
            return
        if left < 0:
            for process in running.values():
                process.kill()
                process.wait()
            print("out of time:", ", ".join(job.name for job in running), flush=True)
            return
        time.sleep(0.5)


def command(given: argparse.Namespace, job: Job) -> list[str]:
    """The command that runs one job of a sweep."""
    values = {"set": job.data, "data": given.data, "results": given.results, "device": given.device}
    if job.method != COST:
        values |= {"method": job.method, "setting": job.setting, "seed": job.seed, "splits": given.splits}
        values |= {"relation": job.relation}
    words = [word for name, value in values.items() for word in (f"--{name}", str(value))]
    words += ["--screen"] if job.screening else []
    return [sys.executable, "-m", quality.__name__, COST if job.method == COST else "run", *words]


def show(result: dict[str, Any]) -> str:
    return graph_cost.summary(result) if "timings" in result else quality.summary(result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("list", "summary", "sweep"))
    parser.add_argument("--results", type=Path, default=RESULTS, help="where results are and go")
    parser.add_argument("--stage", choices=("all", *STAGES), default="all")
    parser.add_argument("--only", choices=SETS, help="one data set")
    parser.add_argument("--data", type=Path, help="folder with <set>.npz (sweep)")
    parser.add_argument("--seconds", type=float, help="how long the sweep may take")
    parser.add_argument("--side-by-side", type=int, default=8)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    given = parser.parse_args()
    if given.verb == "sweep":
        if given.data is None or given.seconds is None:
            parser.error("a sweep needs --data and --seconds")
        sweep(given)
        return
    finished = Finished(given.results)
    if given.verb == "summary":
        for name in sorted(finished.results):
            print(show(finished.results[name]))
        return
    total = 0.0
    for stage in STAGES if given.stage == "all" else (given.stage,):
        for job in missing(finished, stage, given.only):
            needed = seconds(job, given.device) / (given.side_by_side if given.device == "cuda" else 1)
            total += needed
            print(f"{needed:6.0f} s  {stage:9}  {job.name}")
    print(f"{total:6.0f} s of the machine in all")


if __name__ == "__main__":
    main()
