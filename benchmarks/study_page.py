"""Renew the tables that docs/objective-study.md quotes: a few rows and lengths of docs/benchmarks.md.

python benchmarks/study_page.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import mean

import harness
import plan
from jobs import METHODS, Job
from pages import NOT_RUN, emphasise, renewed, table
from tables import Result, Results, Row

PAGE = Path(__file__).parents[1] / "docs" / "objective-study.md"
METRIC = "map_over_found@1000"
COLUMNS = ("2", "4", "8", "16", "32", "64", "full")
SCREENING_COLUMNS = ("2", "4", "8", "16", "64", "full")

OURS = Row("**our default**: `scl`, aligned", "scl", "aligned")
MATRYOSHKA = Row("`matryoshka-scl`, own order", "matryoshka-scl", "projector own order")
MATRYOSHKA_ALIGNED = Row("`matryoshka-scl`, aligned", "matryoshka-scl", "aligned")
CENTRED = Row("`scl`, centred PCA of the encoder", "scl", "encoder PCA centred")
UNCENTRED = Row("`scl`, uncentred PCA of the encoder", "scl", "encoder PCA uncentred")
RANDOM = Row("`scl`, random features", "scl", "projector random features")
PAPER = Row("the paper's ordered objective, own order", "paper", "projector own order")

FINALS: Mapping[str, tuple[Row, ...]] = {
    "cifar10": (OURS, MATRYOSHKA, MATRYOSHKA_ALIGNED, CENTRED, RANDOM, PAPER),
    "tiny": (OURS, MATRYOSHKA, CENTRED, RANDOM, PAPER),
    "coco": (OURS, MATRYOSHKA, CENTRED, UNCENTRED, RANDOM, PAPER),
}
PCA = tuple(f"{source} PCA {kind}" for source in ("encoder", "projector") for kind in ("centred", "uncentred"))
"""The four PCA codes of a training."""


def finals(results: Results, data: str) -> str:
    """Means over the seeds of the rows that lead a set."""
    runs = {row.method: results.finals(data, row.method) for row in FINALS[data]}
    return table(["code", *COLUMNS], emphasise([[row.label, *_means(row, runs[row.method])] for row in FINALS[data]]))


def _means(row: Row, runs: list[Result]) -> list[str]:
    curves = [row.curve(run, METRIC, run["retrieval"]) for run in runs if "retrieval" in run]
    return [f"{mean(curve[column] for curve in curves):.3f}" if curves else NOT_RUN for column in COLUMNS]


def screening(results: Results) -> str:
    """Two rates of every screened objective: its own order, the best PCA of its outputs, and the aligned code."""
    rows = [row for method in plan.SCREENED for row in _screened(results, method)]
    return table(["objective, rate", "kNN held out", "code", *SCREENING_COLUMNS], rows)


def _screened(results: Results, method: str) -> Iterator[list[str]]:
    low, middle, _ = METHODS[method].rates
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


TABLES: Mapping[str, Callable[[Results], str]] = {
    "cifar10": lambda results: finals(results, "cifar10"),
    "tiny": lambda results: finals(results, "tiny"),
    "coco": lambda results: finals(results, "coco"),
    "screening": screening,
}


def page(text: str, folder: Path) -> str:
    """The page with its tables renewed."""
    results = Results(folder)
    for name, made in TABLES.items():
        text = renewed(text, f"{name}: written by benchmarks/study_page.py", made(results))
    return text


def main() -> None:
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), harness.RESULTS), encoding="utf-8")
    print(f"{PAGE.name}: {len(TABLES)} tables")


if __name__ == "__main__":
    main()
