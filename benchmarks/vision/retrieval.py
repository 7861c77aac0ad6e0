"""One run of the vision study: train a job, measure it, write one JSON file.

    python -m benchmarks.vision.retrieval --data FOLDER --set cifar10 --method scl --rate 0.3 --epochs 50

FOLDER contains cifar10.npz, coco.npz, tiny.npz (see `sets.py`; missing sets are not run). A tenth of the training
images is held out for alignment, for choosing the rate (by k-nearest-neighbour accuracy) and for the health check. The
gallery is all training images; the queries are the first 2,000 test images of CIFAR-10, and all of the other sets.
Codes are those of the final epoch; nothing is chosen on the queries.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import torch

from benchmarks.common import harness
from benchmarks.vision import RESULTS, plan, sets
from benchmarks.vision.jobs import METHODS, Job, Part
from benchmarks.vision.measure import Probe, Trained, measure, measure_accuracy, target
from benchmarks.vision.summary import summary
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
    """Collects the results of every check on held-out pairs, also of a run that is stopped."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def report(self, record: Record, check: bool) -> None:
        if check:
            self.records.append(record)


def run(
    job: Job, data: Path, *, compiled: bool = True, study: bool = False, codes: Path | None = None
) -> dict[str, Any]:
    """Train a job and measure it according to its purpose."""
    on = target(data, job.data)
    images = on.train.images
    recipe = job.recipe().but(compile=compiled)
    rows, held = split_held_out(len(images), fraction=job.held_out, seed=job.seed)
    image = ImageInput(recipe.image_size or images.shape[-1], images.shape[1])
    queries = f"{'all' if on.queries == len(on.test) else 'the first'} {on.queries:,} test images"
    result: dict[str, Any] = {
        "benchmark": job.part,
        "protocol": PROTOCOL.format(queries=queries, share=f"{job.held_out:.0%}"),
        "held_out_share": job.held_out,
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_job(parser)
    parser.add_argument("--study", action="store_true", help="measure fixed ridges and exponents too (slow)")
    parser.add_argument("--codes", type=Path, help="folder for codes-<set>.npz")
    parser.add_argument("--default-codes", type=Path, help="the same, if it is the default's final run with seed 0")
    given = parser.parse_args()
    job = given_job(given)
    default = (job.method, job.seed, job.epochs) == (plan.DEFAULT, 0, plan.FINAL_EPOCHS)
    folder = given.codes or (given.default_codes if default else None)
    codes = folder and folder / f"codes-{job.data}.npz"
    result = run(job, given.data, compiled=not given.eager, study=given.study, codes=codes)
    harness.write(given.results / f"{job.name}.json", result)
    print(summary(result))


def add_job(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a run and its place."""
    parser.add_argument("--data", type=Path, required=True, help="folder with <set>.npz")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--eager", action="store_true", help="do not compile the network")
    parser.add_argument("--set", choices=sets.SETS, default="cifar10")
    parser.add_argument("--method", choices=METHODS, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--components", type=int, default=2048)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--part", choices=get_args(Part), default="retrieval")


def given_job(given: argparse.Namespace) -> Job:
    """Return the run that the options describe."""
    size = given.components, given.batch_size
    return Job(given.set, given.method, given.rate, given.epochs, given.seed, *size, part=given.part)


if __name__ == "__main__":
    main()
