"""Quotations in docs/objective-study.md and docs/results.md: tables and sentences from rows of docs/benchmarks.md."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from benchmarks.common.pages import NOT_RUN, emphasise, renewed, table
from benchmarks.vision import plan, speed_tables
from benchmarks.vision.accuracy_tables import PUBLISHED
from benchmarks.vision.jobs import METHODS, Job
from benchmarks.vision.tables import LEADING, SAME_TRAININGS, Result, Results, Row, best_long_run

WRITTEN_BY = "written by python -m benchmarks vision page"
METRIC = "map_over_found@1000"
COLUMNS = ("2", "4", "8", "16", "32", "64", "full")
SCREENING_COLUMNS = ("2", "4", "8", "16", "64", "full")

SETS = ("cifar10", "tiny", "coco")
PCA = tuple(f"{source} PCA {kind}" for source in ("encoder", "projector") for kind in ("centred", "uncentred"))
"""The four PCA codes of a training."""


def finals(results: Results, data: str, rows: tuple[Row, ...] = (*LEADING, *SAME_TRAININGS)) -> str:
    """Return means over seeds of the leading rows of a set, and of the other codes of the same trainings."""
    runs = {row.method: results.finals(data, row.method) for row in rows}
    return table(["code", *COLUMNS], emphasise([[row.label, *_means(row, runs[row.method])] for row in rows]))


def _means(row: Row, runs: list[Result]) -> list[str]:
    curves = [row.curve(run, METRIC, run["retrieval"]) for run in runs if "retrieval" in run]
    return [f"{mean(curve[column] for curve in curves):.3f}" if curves else NOT_RUN for column in COLUMNS]


def screening(results: Results) -> str:
    """Two rates of every screened objective: its own order, the best PCA of its outputs, and the aligned code."""
    rows = [row for method in plan.SCREENED for row in _screened(results, method)]
    return table(["objective, rate", "kNN held out", "code", *SCREENING_COLUMNS], rows)


def _screened(results: Results, method: str) -> Iterator[list[str]]:
    low, middle, _ = METHODS[method].grid
    how = METHODS[method].optimizer.upper()
    name = f"`{METHODS[method].objective}`" + (" (the paper's)" if method == "paper" else "")
    for rate in (middle, low):
        result = results.of(Job("cifar10", method, rate, plan.SCREENING_EPOCHS))
        if result is None or "retrieval" not in result:
            continue
        curves = {code: Row("", method, code).curve(result, METRIC, result["retrieval"]) for code in (*PCA, "aligned")}
        own = Row("", method, "projector own order").curve(result, METRIC, result["retrieval"])
        best = {column: max(curves[code].get(column, 0.0) for code in PCA) for column in SCREENING_COLUMNS}
        shown = {"own order": own, "best PCA": best} if rate == middle else {}
        for place, (code, curve) in enumerate((shown | {"aligned": curves["aligned"]}).items()):
            head = [f"{name}, {how} {rate:g}", f"{result['knn_held_out']:.3f}"] if place == 0 else ["", ""]
            yield [*head, code, *(f"{curve[column]:.3f}" for column in SCREENING_COLUMNS)]


def headline(results: Results) -> str:
    """Return the part of docs/results.md on CIFAR-10: the leading four, the longest and the best published, speed."""
    name, (published, minutes) = max(PUBLISHED.items(), key=lambda row: row[1][0])
    said = [finals(results, "cifar10", LEADING)]
    best = best_long_run(results)
    if best is not None:
        said.append(
            f"After {best['job']['epochs']} epochs, the recipe `cifar10-resnet18` with "
            f"{best.get('held_out_share', 0.1):.0%} of the images held out reaches kNN accuracy "
            f"{best['knn_test']:.3f} and linear probe {best['linear_sgd_test']:.3f} at the final epoch. It takes "
            f"{best['seconds_training'] / 60:.1f} minutes on one {best['device'].removeprefix('NVIDIA ')}. The best "
            f"row that lightly publishes for this setting, {name}, has kNN {published:.3f} at its best epoch, after "
            f"{minutes} minutes on an A6000."
        )
    said += [words] if (words := speed_tables.in_short(results.by_name)) else []
    return "\n\n".join(textwrap.fill(part, 120) if not part.startswith("|") else part for part in said)


def in_short(text: str, folder: Path) -> str:
    """docs/results.md with its figures renewed."""
    return renewed(text, f"figures: {WRITTEN_BY}", headline(Results(folder)))


def page(text: str, folder: Path) -> str:
    """The page with its tables renewed."""
    results = Results(folder)
    tables = {data: finals(results, data) for data in SETS} | {"screening": screening(results)}
    for name, made in tables.items():
        text = renewed(text, f"{name}: {WRITTEN_BY}", made)
    return text
