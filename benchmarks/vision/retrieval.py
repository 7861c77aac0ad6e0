"""Train one job of the study, measure what it is worth, write one JSON file; or as many jobs as fit into some time.

    python -m benchmarks.vision.retrieval run --data FOLDER --set cifar10 --method scl --rate 0.3 --epochs 50
    python -m benchmarks.vision.retrieval sweep --data FOLDER --seconds 560 --side-by-side 3 --eager

FOLDER holds cifar10.npz, coco.npz, tiny.npz (see `sets.py`; what is not there is not run). Training images: all but a
tenth, held out for alignment, for choosing the rate (k-nearest-neighbour accuracy there) and for the health check.
Gallery: all training images. Queries: the first 2,000 test images of CIFAR-10, all of the others. Final epoch; nothing
is chosen on the queries.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import torch

from benchmarks.common import harness
from benchmarks.vision import RESULTS, plan, sets
from benchmarks.vision.jobs import METHODS, Job, Part
from benchmarks.vision.measure import Probe, Trained, measure, measure_accuracy, target
from eigenmap.fitting import pipeline
from eigenmap.fitting.images import ImageTask
from eigenmap.fitting.options import RunOptions
from eigenmap.model import ImageInput
from eigenmap.relations.images import split_held_out
from eigenmap.training import CollapseError, DivergedError
from eigenmap.training.metrics import Record
from eigenmap.training.progress import Silent

PROTOCOL = (
    "mAP and precision of {queries} against all training images, cosine, final epoch; {share} of the "
    "training images are not trained on (alignment, choice of the rate by kNN)"
)


class Checks(Silent):
    """Keeps what every look at the held-out pairs found, also of a run that is stopped."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def report(self, record: Record, check: bool) -> None:
        if check:
            self.records.append(record)


def run(
    job: Job, data: Path, *, compiled: bool = True, study: bool = False, codes: Path | None = None
) -> dict[str, Any]:
    """Train a job and measure what it is for."""
    on = target(data, job.data)
    images = on.train.images
    recipe = job.recipe().but(compile=compiled)
    # Where nothing is chosen, a few held-out images for the alignment are enough.
    fraction = 0.02 if job.part == "accuracy" else 0.1
    rows, held = split_held_out(len(images), fraction=fraction, seed=job.seed)
    image = ImageInput(recipe.image_size or images.shape[-1], images.shape[1])
    queries = f"{'all' if on.queries == len(on.test) else 'the first'} {on.queries:,} test images"
    result: dict[str, Any] = {
        "benchmark": job.part,
        "protocol": PROTOCOL.format(queries=queries, share=f"{fraction:.0%}"),
        "held_out_share": fraction,
        "job": asdict(job),
        "recipe": asdict(recipe),
        **harness.environment(),
    }
    checks = Checks()
    try:
        done = pipeline.train(ImageTask(recipe, images, rows, held, image), RunOptions(seed=job.seed, progress=checks))
    except (CollapseError, DivergedError) as error:
        return {**result, "collapsed": str(error), "history": checks.records}
    result["seconds_training"] = done.result.seconds
    result["images_per_second"] = done.result.steps * recipe.batch_size / done.result.seconds
    result["history"] = checks.records
    result["peak_gpu_gib"] = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None

    began = time.perf_counter()
    trained = Trained(done.problem, recipe.n_components)
    if job.part == "robustness":
        result |= measure_accuracy(trained, on, held)
    else:
        probes: tuple[Probe, ...] = ("ridge", "sgd") if job.part == "accuracy" else ("ridge",)
        elsewhere = None if job.set.transfer is None else target(data, job.set.transfer)
        result |= measure(trained, on, held, probes=probes, transfer=elsewhere, study=study, codes=codes)
    result["seconds_measuring"] = time.perf_counter() - began
    return result


def sweep(given: argparse.Namespace) -> None:
    """Run missing jobs of the plan, several side by side, as long as they are likely to finish in time."""
    deadline = time.monotonic() + given.seconds
    running: dict[str, subprocess.Popen[bytes]] = {}
    started: set[str] = set()
    # Part of the measurement runs on the CPU: processes that take all its cores would wait for each other.
    threads = max(1, (os.cpu_count() or 1) // given.side_by_side)
    environment = {"OMP_NUM_THREADS": str(threads)} | os.environ
    left_out = [name for job in plan.missing(plan.Finished(), given.stage) for name in without_data(given.data, job)]
    for name, count in Counter(left_out).items():
        print(f"{count} runs are left out: there is no {given.data / name}.npz", flush=True)
    while True:
        for name in [name for name, process in running.items() if process.poll() is not None]:
            code = running.pop(name).returncode
            print(f"{'done' if code == 0 else 'FAILED'}  {name}", flush=True)
        left = deadline - time.monotonic()
        for job in plan.missing(plan.Finished(given.results), given.stage):
            if len(running) >= given.side_by_side:
                break
            too_long = plan.wall_seconds(job, given.side_by_side) > left
            if job.name in started or too_long or without_data(given.data, job):
                continue
            started.add(job.name)
            with (given.results / f"{job.name}.log").open("wb") as log:
                running[job.name] = subprocess.Popen(command(given, job), stdout=log, stderr=log, env=environment)
            print(f"start {job.name}", flush=True)
        if not running:
            return
        if left < 0:
            for process in running.values():
                process.kill()
                process.wait()
            print("out of time:", ", ".join(running), flush=True)
            return
        time.sleep(0.5)


def without_data(folder: Path, job: Job) -> list[str]:
    """The sets that the job needs and that are not in the folder."""
    needed = [name for name in (job.data, job.set.transfer) if name is not None]
    return [name for name in needed if not (folder / f"{name}.npz").is_file()]


def command(given: argparse.Namespace, job: Job) -> list[str]:
    """The command that runs one job of a sweep."""
    values = {"set": job.data, "method": job.method, "rate": job.rate, "epochs": job.epochs, "seed": job.seed}
    values |= {"components": job.n_components, "batch-size": job.batch_size, "part": job.part}
    values |= {"data": given.data, "results": given.results}
    words = [word for name, value in values.items() for word in (f"--{name}", str(value))]
    words += [f"--{name}" for name in ("eager", "study") if getattr(given, name)]
    if given.codes and (job.method, job.seed, job.epochs) == (plan.DEFAULT, 0, plan.FINAL_EPOCHS):
        words += ["--codes", str(given.codes)]
    return [sys.executable, "-m", "benchmarks.vision.retrieval", "run", *words]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one, many = verbs.add_parser("run"), verbs.add_parser("sweep")
    for verb in (one, many):
        verb.add_argument("--data", type=Path, required=True, help="folder with <set>.npz")
        verb.add_argument("--results", type=Path, default=RESULTS)
        verb.add_argument("--eager", action="store_true", help="do not compile the network")
        verb.add_argument("--study", action="store_true", help="measure fixed ridges and exponents too (slow)")
        verb.add_argument("--codes", type=Path, help="folder for the codes (in a sweep: the default's, seed 0)")
    one.add_argument("--set", choices=sets.SETS, default="cifar10")
    one.add_argument("--method", choices=METHODS, required=True)
    one.add_argument("--rate", type=float, required=True)
    one.add_argument("--epochs", type=int, required=True)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--components", type=int, default=2048)
    one.add_argument("--batch-size", type=int, default=512)
    one.add_argument("--part", choices=get_args(Part), default="retrieval")
    many.add_argument("--seconds", type=float, required=True)
    many.add_argument("--side-by-side", type=int, default=plan.SIDE_BY_SIDE)
    many.add_argument("--stage", choices=("all", *plan.STAGES), default="all", help="which part of the plan")
    given = parser.parse_args()
    given.results.mkdir(parents=True, exist_ok=True)
    if given.verb == "sweep":
        sweep(given)
        return
    size = given.components, given.batch_size
    job = Job(given.set, given.method, given.rate, given.epochs, given.seed, *size, part=given.part)
    codes = given.codes and given.codes / f"{job.name}.npz"
    result = run(job, given.data, compiled=not given.eager, study=given.study, codes=codes)
    harness.write(given.results / f"{job.name}.json", result)
    print(plan.summary(result))


if __name__ == "__main__":
    main()
