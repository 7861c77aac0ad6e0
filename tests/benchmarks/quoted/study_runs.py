"""The runs of the vision study as its page speaks of them: curves, means over seeds, differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from statistics import mean

from benchmarks.vision import RESULTS, plan
from benchmarks.vision.jobs import METHODS, Job
from benchmarks.vision.study_page import METRIC, PCA
from benchmarks.vision.tables import COLUMNS, Result, Results, Row

OWN, ALIGNED, RANDOM, CENTRED, UNCENTRED = (
    *("projector own order", "aligned", "projector random features"),
    *("encoder PCA centred", "encoder PCA uncentred"),
)
Curve = Mapping[str, float]
"""Length -> value; the longest is also "full"."""


@cache
def results() -> Results:
    return Results(RESULTS)


def run(method: str, rate: float, epochs: int = plan.SCREENING_EPOCHS, **changes: int) -> Result:
    """A run on CIFAR-10 by its settings; seed 0 unless told."""
    found = results().of(Job("cifar10", method, rate, epochs, **changes))
    assert found is not None, f"{method} at {rate} has no result"
    return found


def brief(method: str, rate: float, width: int = 2048, batch: int = 512) -> Result:
    """A robustness run of 10 epochs."""
    found = results().of(plan.brief(method, rate, width, batch))
    assert found is not None, f"{method} at {rate}, k = {width}, batch {batch} has no result"
    return found


def finals(method: str, data: str = "cifar10") -> list[Result]:
    found = results().finals(data, method)
    assert found, f"{method} has no finals on {data}"
    return found


def curve(run: Result, code: str, metric: str = METRIC, transfer: str | None = None) -> Curve:
    """Values of a code at the lengths of the tables."""
    tables = run["retrieval"] if transfer is None else run["transfer"][transfer]
    found = Row("", "", code).curve(run, metric, tables)
    return {column: found[column] for column in COLUMNS if column in found}


def average(runs: Iterable[Result], code: str) -> Curve:
    """Means over seeds at the lengths that all of them have."""
    curves = [curve(one, code) for one in runs]
    return {at: mean(one[at] for one in curves) for at in COLUMNS if all(at in one for one in curves)}


def at(values: Curve, *lengths: int | str) -> list[float]:
    return [values[str(length)] for length in lengths]


def lead(ours: Curve, theirs: Curve, least: int = 2) -> dict[str, float]:
    """Ours minus theirs at the lengths that both have, from a length on."""
    return {
        at: ours[at] - theirs[at]
        for at in COLUMNS
        if at in ours and at in theirs and (at == "full" or int(at) >= least)
    }


def span(values: Iterable[float]) -> list[float]:
    """The smallest and the largest."""
    found = list(values)
    return [min(found), max(found)]


def best_pca(run: Result) -> Curve:
    """At each length the best of the four PCA codes of a run."""
    curves = [curve(run, code) for code in PCA]
    return {at: max(one[at] for one in curves if at in one) for at in COLUMNS if any(at in one for one in curves)}


def screened(method: str) -> dict[float, Result]:
    """Rate -> screening run, without those that collapsed."""
    return {rate: one for rate, one in results().screened(method).items() if "collapsed" not in one}


def collapsed(method: str) -> set[float]:
    return {rate for rate in METHODS[method].rates if rate not in screened(method)}


def rank(run: Result) -> float:
    """Effective rank of the held-out codes at the end of training."""
    return float(run["history"][-1]["effective_rank"])
