"""Sections of docs/paper.md on tables 2 to 4: sweeps of linear probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.common.pages import NOT_RUN, table
from benchmarks.common.plan import Stored
from benchmarks.paper import published
from benchmarks.paper.probes import Job, stored_result
from eigenmap.reproduce import METHODS
from eigenmap.reproduce.sweeps import (
    ABLATIONS,
    BATCHES,
    COMPARED,
    EPOCHS,
    Run,
    table_2_runs,
    table_3_runs,
    table_4_runs,
)

Result = dict[str, Any]

TABLE_2 = """\
## Table 2: batch size

Paper: ImageNet, ResNet-50, projector of 2,048, 100 epochs. Ours: CIFAR-10, ResNet-18, the same projector, 20 epochs;
rates in proportion to the batch. Linear probe, percent. One of three strengths of Barlow Twins' penalty is chosen per
batch size by held-out neighbours, and named."""

TABLE_3 = """\
## Table 3: projector

Paper: batch 2,048. Ours: CIFAR-10, ResNet-18, batch 2,048, 20 epochs. Barlow Twins has the strength that the authors'
runs used at each width (0.0204 / 0.0102 / 0.0051); in table 2 it is chosen. According to the appendix, training failed
or was poor without a projector, with a linear one, or without BatchNorm in it."""

TABLE_4 = """\
## Table 4: length of training

Paper: 100, 200 and 400 epochs. Ours: CIFAR-10, ResNet-18, batch 512, 50, 100 and 200 epochs; the first column of ours
is that of table 1."""


OVER_TIME = ("simsiam", "unordered")
"""Methods of table 4."""


def found(run: Run, stored: Stored) -> Result | None:
    """The result of a run of a sweep."""
    return stored_result(Job.of(run), stored)


def cell(result: Result | None) -> str:
    """The linear probe in percent."""
    if result is None:
        return NOT_RUN
    return "collapsed" if "collapsed" in result else f"{100 * result['linear_ridge_test']:.1f}"


def chosen(runs: Sequence[Run], stored: Stored) -> str:
    """Return the cell of the strength chosen by held-out neighbours, once all have run."""
    results = [(run, found(run, stored)) for run in runs]
    if any(result is None for _, result in results):
        return NOT_RUN
    best, result = max(results, key=lambda pair: (pair[1] or {}).get("knn_held_out", -1.0))
    return f"{cell(result)} ({best.lambda_:g})" if len(runs) > 1 else cell(result)


def side_by_side(
    first: str, values: Mapping[str, Mapping[str, str]], ours: Mapping[str, Mapping[str, str]], methods: Sequence[str]
) -> str:
    """Return a table with the paper's column and ours for each method."""
    head = [first, *(f"{METHODS[method].title}, {whose}" for method in methods for whose in ("paper", "ours"))]
    rows = [
        [name, *(text for method in methods for text in (values[name][method], ours[name][method]))] for name in values
    ]
    return table(head, rows)


Cells = dict[int, dict[str, str]]
"""Our cells of a sweep: by batch size, width or epochs, then by method."""


def by_batch_size(stored: Stored) -> Cells:
    """Return our cells of table 2."""
    runs = table_2_runs("small")
    return {
        batch: {
            method: chosen([run for run in runs if (run.batch_size, run.method) == (batch, method)], stored)
            for method in COMPARED
        }
        for batch in BATCHES["small"]
    }


def by_projector(stored: Stored) -> Cells:
    """Return our cells of the first part of table 3."""
    runs = [run for run in table_3_runs("small") if run.projector == "mlp"]
    cells = {(run.n_components, run.method): cell(found(run, stored)) for run in runs}
    return {k: {method: cells[k, method] for method in COMPARED} for k in published.PROJECTORS}


def by_epochs(stored: Stored) -> Cells:
    """Return our cells of table 4."""
    cells = {(run.epochs, run.method): cell(found(run, stored)) for run in table_4_runs("small")}
    return {epochs: {method: cells[epochs, method] for method in OVER_TIME} for epochs in EPOCHS["small"]}


def table_2(stored: Stored) -> str:
    values = {f"{batch:,}": published.BATCH_SIZES[batch] for batch in BATCHES["small"]}
    ours = {f"{batch:,}": cells for batch, cells in by_batch_size(stored).items()}
    return f"{TABLE_2}\n\n{side_by_side('batch', values, ours, COMPARED)}"


def table_3(stored: Stored) -> str:
    runs = table_3_runs("small")
    values = {f"{k:,}": row for k, row in published.PROJECTORS.items()}
    ours = {f"{k:,}": cells for k, cells in by_projector(stored).items()}
    without = [
        [words, "failed or poor", cell(next(found(run, stored) for run in runs if run.projector == kind))]
        for kind, words in ABLATIONS.items()
    ]
    lines = table(("the paper's, unordered", "paper", "ours"), without)
    return f"{TABLE_3}\n\n{side_by_side('projector', values, ours, COMPARED)}\n\n{lines}"


def table_4(stored: Stored) -> str:
    lengths = dict(zip(EPOCHS["paper"], EPOCHS["small"], strict=True))
    values = {f"{theirs} / {own}": published.EPOCHS[theirs] for theirs, own in lengths.items()}
    measured = by_epochs(stored)
    ours = {f"{theirs} / {own}": measured[own] for theirs, own in lengths.items()}
    return f"{TABLE_4}\n\n{side_by_side('epochs, paper / ours', values, ours, OVER_TIME)}"
