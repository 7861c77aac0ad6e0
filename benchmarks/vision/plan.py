"""Plan of the vision study: its stages, most valuable first, and the estimated seconds of runs.

Stages, in the order in which they are worth running:

| stage          | runs |
| -------------- | --- |
| screening      | 5 methods x 3 or 5 rates, 20 epochs, CIFAR-10: finds each method's rate by kNN on held-out images |
| finals-cifar10 | the trainings behind the leading four rows, 50 epochs, 3 seeds |
| finals-coco    | the same on COCO |
| robustness     | batch x optimiser at k = 2,048, 10 epochs: the default and the paper's objective |
| tiny           | the leading four on Tiny-ImageNet-100, 1 seed; each is measured on COCO too, without fine-tuning |
| rates          | 10 epochs: the rates of the other rows, of the other optimisers, and of batch 2,048 |
| others         | every other row, 1 seed, CIFAR-10 |
| robustness-k   | the robustness runs at k = 128 and 8,192 |
| few-steps      | the default at batch 512 with the steps of batch 2,048 |
| accuracy-search | other settings of the default, 20 epochs: crops, SCL's scale, the projector's rate, twice the rate |
| accuracy       | the best of these by held-out kNN, 200 epochs, CIFAR-10 |
| wide           | the Gram penalty and the paper's objective at k = 8,192, 20 epochs |
| robustness-gram | the Gram penalty over all of that |
| records        | other settings of the default, each alone, 50 epochs; the best of them for 200, 800 and 1,000 |
| batches        | batch 2,048 against 512 with each remedy alone, 10 epochs: warm-up, LARS, LAMB, clipping, averages |
| crops          | the leading four with the wider crops of `cifar10-resnet18`, 3 seeds |

The leading four are three trainings: SCL's serves our default (aligned) and SCL with PCA. Whatever needs a method's
rate waits until the screening of that method is complete. A run is finished if its file is in `results/` or in
`--results`. A rate is for batch 512 and grows with the batch; at batch 2,048 the default and the paper's objective may
take a half, a quarter or an eighth of that, whichever has the best held-out kNN accuracy at k = 2,048.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common.plan import Stored, planned
from benchmarks.vision import RESULTS
from benchmarks.vision.jobs import BATCH, METHODS, RECORD_EPOCHS, Job
from eigenmap import recipes

DEFAULT = "scl"
SCREENED = ("scl", "matryoshka-scl", "gram", "nested", "paper")
LEADING = ("scl", "matryoshka-scl", "paper")
OTHERS = ("gram", "nested", "paper-unordered", "barlow-twins", "vicreg", "simclr")
BRIEFLY_SCREENED = ("paper-unordered", "barlow-twins", "vicreg", "simclr", "scl-lars", "paper-sgd")
"""Methods whose rate is chosen in the same way, but after 10 epochs."""
ORDERED = ("gram", "paper")
"""Objectives that order their features themselves, in the paper's way."""
VARIANTS = ("scl-wide", "scl-scale5", "scl-scale20", "scl-slow-projector", "scl-fast-projector")
ROBUST = ("scl", "scl-lars", "paper", "paper-sgd")
ROBUST_ORDERED = ("gram", "gram-lars")
SCREENING_EPOCHS, FINAL_EPOCHS, ROBUSTNESS_EPOCHS, ACCURACY_EPOCHS = 20, 50, 10, 200
CANDIDATE_EPOCHS = 50
REMEDIES = {
    "scl-warm": (0.75, 0.375, 0.1875),
    "scl-relative": (0.75, 0.375, 0.1875, 0.09375),
    "scl-lamb": (0.0025, 0.005, 0.01),
    "scl-lars-warm": (1.2, 2.4, 4.8),
    "scl-average": (0.375,),
}
"""Remedies for large batches and their rates (for batch 512); a grid goes on where its last rate was the best."""
CANDIDATES = (
    "scl-wide",
    "scl-wide-crops",
    "scl-wide-taught",
    "scl-wide-deep",
    "scl-wide-average",
    "scl-wide-linear",
    "scl-wide-late",
    "scl-cifar-simclr",
)
"""Settings that may buy accuracy: the recipe first, then those that take longest."""


class Goal(NamedTuple):
    """What a record has to show."""

    epochs: int
    """At most so many."""
    figure: str
    above: float
    words: str


GOALS = (
    Goal(200, "knn_code_test", 0.885, "kNN of the stored code above 0.885"),
    Goal(800, "knn_code_test", 0.910, "kNN of the stored code above 0.910, the best of lightly's documentation"),
    Goal(1000, "linear_sgd_test", 0.931, "linear probe above 0.931, the best of solo-learn's"),
)
CONSTANT = "scl-wide-late"
"""The candidate that makes long runs cheap: those of other lengths continue one another."""
HELD_OUT_IMAGES = 5000
SEEDS = (0, 1, 2)
BATCHES, WIDTHS = (512, 256, 2048), (2048, 128, 8192)
LARGE = 2048
SEARCHED_AT_LARGE = ROBUST
SHARES = (1.0, 0.5, 0.25, 0.125)
"""Shares of the proportional rate tried at a large batch: all of it, its root, that of a small batch, and less."""

IMAGES_PER_SECOND = float(os.environ.get("EIGENMAP_IMAGES_PER_SECOND", 50_000))
"""Images per second of the whole GPU at 32 pixels, all processes together: one H200, four side by side, compiled."""
ALONE = 0.85
"""Share of that reached by a single process: 42,700 images per second in the runs of 200 epochs."""
SIDE_BY_SIDE = 4
VIEWS_SHARE = 0.25
"""Share of a step at 32 pixels spent on views (`speed-resnet18-32.json`)."""
START, MEASURING, ACCURACY_ONLY = 25.0, 30.0, 5.0
"""Seconds of a job besides training, with four side by side: start and compilation; all codes; kNN and linear."""


def training_seconds(job: Job) -> float:
    """Estimate the seconds of training alone on the GPU: images divided by speed, by pixels and by width."""
    like = recipes.get(job.set.recipe)
    pixels = ((like.image_size or 32) / 32) ** 2
    stem = {"imagenet": 1 / 16, "medium": 1 / 4}.get(like.stem, 1.0)  # by the square of its stride
    by_size = pixels * (VIEWS_SHARE + (1 - VIEWS_SHARE) * stem)
    # An estimate: at k = 8,192, projector and objective cost about as much as everything else.
    by_width = (1 + (job.n_components / 8192) ** 2) / (1 + (2048 / 8192) ** 2)
    by_width *= METHODS[job.method].cost
    shorter = job.shorter()
    epochs = job.epochs - (shorter.undecayed if shorter else 0)
    return epochs * (1 - job.held_out) * job.set.train_images / IMAGES_PER_SECOND * by_size * max(1.0, by_width)


def wall_seconds(job: Job, side_by_side: int = SIDE_BY_SIDE) -> float:
    """Estimate the seconds of a job when `side_by_side` jobs share the GPU."""
    measuring = ACCURACY_ONLY if job.part == "robustness" else MEASURING * (2 if job.set.transfer else 1)
    slower = 1 / ALONE if side_by_side == 1 else side_by_side
    return START + slower * training_seconds(job) + measuring * max(0.6, side_by_side / SIDE_BY_SIDE)


class Finished(Stored):
    """The runs that have a result, in the repository or in further folders."""

    def __init__(self, *folders: Path) -> None:
        super().__init__(RESULTS, *folders)
        self.assume_rates = False
        """Whether to assume the middle of the grid for unknown rates, to estimate the remaining time."""

    def __contains__(self, job: Job) -> bool:
        return self.has(job.name)

    def result(self, job: Job) -> dict[str, Any] | None:
        return self.read(job.name)

    def best_rate(self, method: str) -> float | None:
        """The rate with the best held-out kNN accuracy in the screening; None until all of them ran."""
        return self._best({rate: trial(method, rate) for rate in METHODS[method].rates})

    def rate(self, method: str) -> float | None:
        """Return the rate of a method: the best one if it is screened, else the middle of the grid."""
        middle = METHODS[method].grid[1]
        if method not in (*SCREENED, *BRIEFLY_SCREENED):
            return middle
        return self.best_rate(method) or (middle if self.assume_rates else None)

    def rate_at(self, method: str, batch: int) -> float | None:
        """The rate (for batch 512) to run a method at with this batch; None until it is known."""
        rate = self.rate(method)
        if rate is None or method not in SEARCHED_AT_LARGE or batch != LARGE:
            return rate
        tried = {share * rate: brief(method, share * rate, batch_size=LARGE) for share in SHARES}
        return self._best(tried) or (rate if self.assume_rates else None)

    def _best(self, jobs: Mapping[float, Job]) -> float | None:
        """The rate whose job has the best held-out kNN accuracy; None until all ran.

        A collapsed run counts as 0; the first of equal rates is returned.
        """
        results = {rate: self.result(job) for rate, job in jobs.items()}
        scores = {rate: result.get("knn_held_out", 0.0) for rate, result in results.items() if result is not None}
        return max(scores, key=lambda rate: scores[rate]) if len(scores) == len(jobs) else None


def brief(method: str, rate: float, n_components: int = 2048, batch_size: int = BATCH) -> Job:
    """Return a run of 10 epochs that measures only how well it trains."""
    return Job("cifar10", method, rate, ROBUSTNESS_EPOCHS, 0, n_components, batch_size, part="robustness")


def trial(method: str, rate: float) -> Job:
    """Return the run that tests a rate for a method."""
    return brief(method, rate) if method in BRIEFLY_SCREENED else Job("cifar10", method, rate, SCREENING_EPOCHS)


def screening(finished: Finished) -> Iterator[Job]:
    # The middle rate of every method comes first: if time runs out, every method has a result.
    for place in (1, 2, 0):
        for method in SCREENED:
            yield Job("cifar10", method, METHODS[method].grid[place], SCREENING_EPOCHS)
    for method in SCREENED:
        yield from (Job("cifar10", method, rate, SCREENING_EPOCHS) for rate in METHODS[method].beyond)


def _finals(data: str, methods: tuple[str, ...], seeds: tuple[int, ...]) -> Callable[[Finished], Iterator[Job]]:
    def jobs(finished: Finished) -> Iterator[Job]:
        for seed, method in product(seeds, methods):
            rate = finished.rate(method)
            if rate is not None:
                yield Job(data, method, rate, FINAL_EPOCHS, seed)

    return jobs


def _robustness(methods: tuple[str, ...], widths: tuple[int, ...]) -> Callable[[Finished], Iterator[Job]]:
    def jobs(finished: Finished) -> Iterator[Job]:
        for width, batch, method in product(widths, BATCHES, methods):
            rate = finished.rate_at(method, batch)
            if rate is not None:
                yield brief(method, rate, width, batch)

    return jobs


def _rates(finished: Finished) -> Iterator[Job]:
    yield from (brief(method, rate) for method in BRIEFLY_SCREENED for rate in METHODS[method].rates)
    for method in SEARCHED_AT_LARGE:
        rate = finished.rate(method)
        if rate is not None:
            yield from (brief(method, share * rate, batch_size=LARGE) for share in SHARES)


def few_steps(finished: Finished) -> Iterator[Job]:
    """The default at the usual batch with about the steps that a robustness run has at the large one."""
    rate = finished.rate(DEFAULT)
    if rate is not None:
        yield from (replace(brief(DEFAULT, rate), epochs=epochs) for epochs in (2, 3))


def wide(finished: Finished) -> Iterator[Job]:
    """The ordered objectives at the largest k."""
    for method in ORDERED:
        rate = finished.rate(method)
        if rate is not None:
            yield Job("cifar10", method, rate, SCREENING_EPOCHS, n_components=WIDTHS[-1])


def wider(method: str) -> str:
    """Return the name of a method with crops of at least a fifth of the image."""
    return f"{method}-wide"


def _crops(finished: Finished) -> Iterator[Job]:
    """The leading four with wider crops, at the rates found with the others."""
    for seed, method in product(SEEDS, LEADING):
        rate = finished.rate(method)
        if rate is not None:
            yield Job("cifar10", wider(method), rate, FINAL_EPOCHS, seed)


def accuracy_search(finished: Finished) -> Iterator[Job]:
    """The default and other settings of it, at its rate; and twice that rate."""
    rate = finished.rate(DEFAULT)
    if rate is not None:
        yield from (Job("cifar10", method, rate, SCREENING_EPOCHS) for method in (DEFAULT, *VARIANTS))
        yield Job("cifar10", DEFAULT, 2 * rate, SCREENING_EPOCHS)


def _accuracy(finished: Finished) -> Iterator[Job]:
    tried = {job: finished.result(job) for job in accuracy_search(finished)}
    known = {job: result.get("knn_held_out", 0.0) for job, result in tried.items() if result is not None}
    if tried and (finished.assume_rates or len(known) == len(tried)):
        best = max(tried, key=lambda job: known.get(job, 0.0))
        yield replace(best, epochs=ACCURACY_EPOCHS, part="accuracy")


def batches(finished: Finished) -> Iterator[Job]:
    """The default at batch 512, and each remedy at the large batch and (at its first rate) at 512."""
    rate = finished.rate(DEFAULT)
    if rate is not None:
        yield brief(DEFAULT, rate)
    for method, rates in REMEDIES.items():
        yield from (brief(method, tried, batch_size=LARGE) for tried in rates)
    yield from (brief(method, rates[0]) for method, rates in REMEDIES.items())


def records(finished: Finished) -> Iterator[Job]:
    """Every candidate alone; then the one with the best held-out kNN accuracy of the stored code, at each length.

    A constant rate wins if it is within a standard error of the best, since one run then serves all lengths. Records
    follow one another.
    """
    rate = recipes.get("cifar10-resnet18").lr
    tried = [Job("cifar10", method, rate, CANDIDATE_EPOCHS, part="candidates") for method in CANDIDATES]
    yield from tried
    results = {job: finished.result(job) for job in tried}
    scores = {job: result.get("knn_code_held_out", 0.0) for job, result in results.items() if result is not None}
    if finished.assume_rates or len(scores) == len(tried):
        best = max(tried, key=lambda job: scores.get(job, 0.0))
        top = scores.get(best, 0.0)
        error = math.sqrt(top * (1 - top) / HELD_OUT_IMAGES)
        constant = next(job for job in tried if job.method == CONSTANT)
        if scores.get(constant, 0.0) >= top - error and scores:
            best = constant
        long: dict[int, Mapping[str, Any]] = {}
        for epochs in RECORD_EPOCHS:
            if all(within(goal, long) for goal in GOALS if goal.epochs >= epochs):
                return
            record = replace(best, epochs=epochs, part="records")
            yield record
            long[epochs] = finished.result(record) or {}
            if not finished.assume_rates and record not in finished:
                return


def within(goal: Goal, long: Mapping[int, Mapping[str, Any]]) -> int | None:
    """The fewest epochs, of those that a goal allows, after which a record meets it; None if none does."""
    met = [epochs for epochs, run in long.items() if epochs <= goal.epochs and run.get(goal.figure, 0.0) > goal.above]
    return min(met, default=None)


STAGES: Mapping[str, Callable[[Finished], Iterator[Job]]] = {
    "screening": screening,
    "finals-cifar10": _finals("cifar10", LEADING, SEEDS),
    "finals-coco": _finals("coco", LEADING, SEEDS),
    "robustness": _robustness(ROBUST, WIDTHS[:1]),
    "tiny": _finals("tiny", LEADING, SEEDS[:1]),
    "rates": _rates,
    "others": _finals("cifar10", OTHERS, SEEDS[:1]),
    "robustness-k": _robustness(ROBUST, WIDTHS[1:]),
    "few-steps": few_steps,
    "accuracy-search": accuracy_search,
    "accuracy": _accuracy,
    "wide": wide,
    "robustness-gram": _robustness(ROBUST_ORDERED, WIDTHS),
    "records": records,
    "batches": batches,
    "crops": _crops,
}


def missing(finished: Finished, stage: str = "all") -> list[Job]:
    """Jobs without a result, in the order in which they should run."""
    return [job for job in planned(STAGES, finished, stage) if job not in finished]


def ready(finished: Finished) -> set[Job]:
    """Return the missing runs that can start now; the others wait for a rate or a setting."""
    known = copy.copy(finished)
    known.assume_rates = False
    return set(missing(known))
