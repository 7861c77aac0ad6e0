"""Plan of the study of node codes: its stages, most valuable first, and the estimated seconds of runs.

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

A run is finished if its file is in `results/` or in an additional folder. Runs that depend on a choice wait until its
screening is complete on that set. Costs are times, so they are measured one job at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import product
from pathlib import Path

from benchmarks.common.plan import Stored, planned
from benchmarks.graphs import RESULTS
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
"""The slowest runs, on which least depends."""

# Seconds on one H200 shared by eight jobs and others, as in the first sweep: many small kernels that wait for each
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
"""Time of a job on one CPU core relative to the GPU."""


def seconds(job: Job, device: str = "cuda") -> float:
    """Estimate the seconds of a job."""
    if job.method == COST:
        work = 20.0
    elif job.ours:
        measuring = SCREENING if job.screening else OURS_MEASURING * SIZE[job.data]
        work = LENGTH[job.data][0] * OURS_PER_STEP + measuring
    else:
        work = SECONDS[job.method] * SIZE[job.data]
    return START + work * (ON_A_CPU if device == "cpu" else 1.0)


class Finished(Stored):
    """The runs that have a result, in the repository unless folders are given."""

    def __init__(self, *folders: Path) -> None:
        super().__init__(*(folders or (RESULTS,)))
        self.results = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in self.paths.items()}

    def __contains__(self, job: Job) -> bool:
        return self.has(job.name)

    def validation(self, job: Job) -> float | None:
        """Return a screened job's score, the mean of the linear probe and the better MLP head, or None."""
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
    # The first relation on every set comes first: if time runs out, every set has a result.
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


def missing(finished: Finished, stage: str = "all") -> list[Job]:
    """Jobs without a result, in the order in which they should run; ours waits until a set's relation is settled."""
    settled = settled_sets(finished)
    return [job for job in planned(STAGES, finished, stage) if job not in finished and can_begin(job, settled)]


def settled_sets(finished: Finished) -> set[str]:
    """Sets on which every relation was screened."""
    return set(SETS) - {job.data for job in relations(finished) if job not in finished}


def can_begin(job: Job, settled: Collection[str]) -> bool:
    """Tell whether a job needs no choice, or the choice for its set has been made."""
    return job.screening or not job.ours or job.data in settled
