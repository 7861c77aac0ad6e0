"""Jobs and pages of the vision study."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks import DOCS, ROOT
from benchmarks.common.pages import renewed
from benchmarks.common.plan import Job, Place, planned
from benchmarks.vision import RESULTS, plan, transfer
from benchmarks.vision.jobs import LONG, METHODS
from benchmarks.vision.jobs import Job as Run

SIDE_BY_SIDE = plan.SIDE_BY_SIDE


def timed(name: str, module: str, *words: str, seconds: float, gpu: bool = False, needs: tuple[str, ...] = ()) -> Job:
    """Return a job that runs alone on the machine and writes one file."""
    words = (*words, "--json", f"{{results}}/{name}.json")
    return Job(name, f"vision.{module}", words, seconds, stage="timed", needs=needs, gpu=gpu, alone=True)


CODES = ("codes-cifar10.npz", "codes-coco.npz")
LARGE = ("--preset", "imagenet", "--modes", "compiled", "--accumulate", "4")
TIMED = (
    timed("speed-resnet18-32", "speed", "--accumulate", "4", "--loader", "--objectives", seconds=150, gpu=True),
    timed("speed-resnet50-224", "speed", *LARGE, seconds=210, gpu=True),
    timed("evaluation-cost-cuda", "evaluation_cost", "--device", "cuda", seconds=60, gpu=True),
    timed("code-cost", "code_cost", seconds=300),
    timed("evaluation-cost-cpu", "evaluation_cost", "--device", "cpu", seconds=600),
    timed(
        "similarity",
        "similarity",
        *("cifar10={data}/codes-cifar10.npz", "coco={data}/codes-coco.npz"),
        seconds=300,
        needs=CODES,
    ),
)
"""Speed of training, cost of evaluation, and other ways to compare codes."""


SECONDS_OF_TRANSFER = {"cifar10": 156.0, "tiny80": 153.0, "coco": 91.0}
"""Seconds of the default's training on each set, with four side by side (`transfer-*-s2.json`)."""
SEARCHING = 45.0
"""Seconds of a job of the transfer study besides its training; an estimate."""
TRANSFER = tuple(
    Job(
        transfer.result_name(name, seed, method),
        "vision.transfer",
        ("--data", "{data}", "--results", "{results}", "--set", name, "--seed", str(seed), "--method", method),
        seconds=SEARCHING + METHODS[method].cost * seconds,
        stage="transfer",
        needs=("cifar10.npz", "tiny.npz", "coco.npz"),
        gpu=True,
    )
    for method, seeds in transfer.SEEDS.items()
    for seed in seeds
    for name, seconds in SECONDS_OF_TRANSFER.items()
)
"""Transfer: networks trained on one set that search every other."""


def jobs(place: Place) -> Iterator[Job]:
    """Every training run of the plan, then the timed jobs."""
    finished = plan.Finished(place.results)
    ready = plan.ready(finished)
    finished.assume_rates = True
    for run, stage in planned(plan.STAGES, finished).items():
        done = run in finished
        yield Job(
            run.name,
            "vision.records" if run.part in LONG else "vision.retrieval",
            words_of(run),
            seconds=plan.wall_seconds(run, place.side_by_side),
            stage=stage,
            needs=tuple(f"{name}.npz" for name in (run.data, run.set.transfer) if name is not None),
            gpu=True,
            pausable=run.part in LONG,
            done=done,
            waits_for="" if done or run in ready else "its rate",
        )
    yield from (replace(job, done=finished.has(job.name)) for job in (*TRANSFER, *TIMED))


def words_of(run: Run) -> tuple[str, ...]:
    """The options that describe a training run."""
    values = {"set": run.data, "method": run.method, "rate": run.rate, "epochs": run.epochs, "seed": run.seed}
    values |= {"components": run.n_components, "batch-size": run.batch_size, "part": run.part}
    values |= {"until": "{until}"} if run.part in LONG else {}
    words = [word for name, value in values.items() for word in (f"--{name}", str(value))]
    return ("--data", "{data}", "--results", "{results}", *words)


def pages() -> Iterator[tuple[Path, str]]:
    """docs/benchmarks.md and transfer.md, and quotations in README.md, docs/objective-study.md and docs/results.md."""
    from benchmarks.vision import study_page, tables, transfer_tables

    yield DOCS / "benchmarks.md", tables.page(RESULTS)
    yield DOCS / "transfer.md", transfer_tables.page(RESULTS)
    readme, words = ROOT / "README.md", f"transfer: {study_page.WRITTEN_BY}"
    yield readme, renewed(readme.read_text(encoding="utf-8"), words, transfer_tables.in_short(RESULTS))
    for path, renew in ((DOCS / "objective-study.md", study_page.page), (DOCS / "results.md", study_page.in_short)):
        yield path, renew(path.read_text(encoding="utf-8"), RESULTS)
