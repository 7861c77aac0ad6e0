"""Sections of docs/benchmarks.md on other settings of the default, and on 200 epochs of the best one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.common.pages import NONE, NOT_RUN, accuracies, made_by, table
from benchmarks.vision import plan
from benchmarks.vision.jobs import METHODS

NAMES = ("knn_held_out", "knn_test", "linear_ridge_test")
LENGTHS = (4, 16, 64)


def other_settings(results: Mapping[str, dict[str, Any]], finished: plan.Finished) -> Iterator[str]:
    """Yield a table with one row per setting that was tried for the default."""
    yield "## CIFAR-10, other settings of the default"
    yield (
        "20 epochs, one seed, one change each. The setting with the best kNN accuracy on held-out images trains for "
        "200 epochs (next section). mAP is over found@1000, of the aligned code."
    )
    tried = {job: results.get(job.name) for job in plan.accuracy_search(finished)}
    rows = [
        [f"{METHODS[job.method].words}, rate {job.rate:g}", *accuracies(result, *NAMES), *_precisions(result)]
        for job, result in tried.items()
    ] or [["any", *[NOT_RUN] * (len(NAMES) + len(LENGTHS))]]
    head = ["setting", "kNN held out", "kNN test", "linear test", *(f"mAP, {dim} features" for dim in LENGTHS)]
    yield table(head, rows)
    yield made_by([result for result in tried.values() if result is not None])


def _precisions(result: dict[str, Any] | None) -> list[str]:
    if result is None or "retrieval" not in result:
        return [NOT_RUN if result is None else NONE] * len(LENGTHS)
    found = {
        row["dim"]: row["map_over_found@1000"] for row in result["retrieval"][f"{result['chosen_source']} aligned"]
    }
    return [f"{found[dim]:.3f}" for dim in LENGTHS]


PUBLISHED = {
    "BYOL": (0.868, 108),
    "SimCLR": (0.848, 87),
    "MoCo": (0.847, 112),
    "SwaV": (0.842, 89),
    "DCL": (0.840, 88),
    "Barlow Twins": (0.819, 153),
    "SimSiam": (0.764, 88),
}
"""kNN accuracy and minutes in lightly's documentation for CIFAR-10, ResNet-18, 200 epochs, batch 512."""


def accuracy(results: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    best = max(knn for knn, _ in PUBLISHED.values())
    yield "## Accuracy: 200 epochs"
    yield (
        f"CIFAR-10, ResNet-18, batch 512, final epoch. Goal: kNN above {best:.3f}. kNN is of the encoder, as in "
        "published rows, and of our code at full length. Linear probes are offline: the usual SGD recipe and "
        "closed-form ridge. Published rows are those of lightly's documentation, with the best epoch on the test "
        "images, one run and minutes on an NVIDIA A6000."
    )
    runs = [result for name, result in results.items() if name.startswith("accuracy-")]
    names = ("knn_test", "knn_code_test", "linear_sgd_test", "linear_ridge_test")
    rows = [
        [
            f"{run['job']['method']}, rate {run['job']['rate']:g}",
            f"{run.get('held_out_share', 0.1):.0%}",
            *accuracies(run, *names),
            f"{run['seconds_training'] / 60:.1f}" if "seconds_training" in run else NONE,
        ]
        for run in runs
    ] or [[plan.DEFAULT, *[NOT_RUN] * 6]]
    rows += [
        [f"{name}, published by lightly", "0%", f"{knn:.3f}", *[NONE] * 3, str(minutes)]
        for name, (knn, minutes) in PUBLISHED.items()
    ]
    head = ["method", "held out", "kNN, encoder", "kNN, code", "linear, SGD", "linear, ridge", "minutes"]
    yield table(head, rows)
    yield made_by(runs)
