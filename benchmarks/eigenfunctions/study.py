"""Jobs and pages of the eigenfunction study."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import DOCS
from benchmarks.common.plan import Job, Place, Stored
from benchmarks.eigenfunctions import RESULTS

SIDE_BY_SIDE = 1
WHERE = ("--folder", "{results}")


def jobs(place: Place) -> Iterator[Job]:
    """Every method on every problem, all seeds; variations; and the cost of kernel methods."""
    stored = Stored(RESULTS, place.results)
    yield from known(stored)
    yield from variations(stored)
    for device, seconds in (("cpu", 900.0), ("cuda", 90.0)):
        name = f"kernel-cost-{device}"
        words = ("--device", device, "--json", f"{{results}}/{name}.json")
        done, gpu = stored.has(name), device == "cuda"
        yield Job(name, "eigenfunctions.kernel_cost", words, seconds, "cost", gpu=gpu, alone=True, done=done)


def known(stored: Stored) -> Iterator[Job]:
    """One job per problem and method; its seeds are runs in the file of the problem."""
    from benchmarks.eigenfunctions.methods import METHODS, Settings
    from benchmarks.eigenfunctions.problems import PROBLEMS

    for problem in PROBLEMS.values():
        runs = stored.rows(f"eigenfunctions-{problem.name}", "runs")
        for name, method in METHODS.items():
            seeds = {run["seed"] for run in runs if run["method"] == name}
            if method.applies(problem):
                words = ("--problems", problem.name, "--methods", name, *WHERE)
                done = seeds >= set(Settings().seeds)
                job = f"{problem.name}-{name}"
                yield Job(job, "eigenfunctions.known", words, 25, "known", alone=True, done=done)


def variations(stored: Stored) -> Iterator[Job]:
    """Layouts of the network, perturbed kernels, and choices inside the estimator: one file each."""
    from benchmarks.eigenfunctions import choices, layouts, perturbation

    planned = {
        "eigen-layouts": ("layouts", layouts.COUNT, 130.0),
        "perturbation": ("perturbation", len(perturbation.VARIANTS) * len(perturbation.SIZES), 220.0),
        "eigen-choices": ("choices", len(choices.CHOICES) * len(choices.SEEDS), 240.0),
    }
    for name, (module, count, seconds) in planned.items():
        done = len(stored.rows(name, "runs")) >= count
        yield Job(name, f"eigenfunctions.{module}", WHERE, seconds, "variations", alone=True, done=done)


def pages() -> Iterator[tuple[Path, str]]:
    """docs/eigenfunctions.md."""
    from benchmarks.eigenfunctions import tables

    yield DOCS / "eigenfunctions.md", tables.page(RESULTS)
