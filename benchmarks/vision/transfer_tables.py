"""docs/transfer.md: codes on what training saw and on what it never saw."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.common.pages import emphasise, made_by, table
from benchmarks.vision import criteria_tables
from benchmarks.vision.transfer import DEFAULT as METHOD
from benchmarks.vision.transfer import DRAWS, METRICS, SEARCHED, TRAINED, VARIANTS

LENGTHS = (2, 4, 8, 16, 32, 64, 128, 256)
DEFAULT, BEFORE = "staged", "before"
ROWS = {
    DEFAULT: "**staged: the default**",
    BEFORE: "the better output alone: the default before",
    "encoder PCA, centred": "PCA of the encoder, centred",
    "encoder PCA, uncentred": "PCA of the encoder, uncentred",
    "projector PCA, centred": "PCA of the projector, centred",
    "projector PCA, uncentred": "PCA of the projector, uncentred",
    "random": "random features of the projector",
    "matryoshka-scl: staged": "Matryoshka-SCL, staged",
    "matryoshka-scl: projector, own order": "Matryoshka-SCL, its own order",
    "paper: projector, own order": "the paper's ordered objective, its own order",
}
"""Rows of the tables; those of another network than the default's name its method first."""
NAMES = {
    "cifar10": "CIFAR-10",
    "tiny80": "80 classes of Tiny-ImageNet",
    "tiny20": "20 other classes of Tiny-ImageNet",
    "coco": "COCO",
}
Cell = tuple[float, float]
"""Mean over seeds, and the standard error over queries."""


AVERAGED, CONFIRMING = (1, 2), (3,)
"""Seeds whose figures are averaged, and those that held other classes of Tiny-ImageNet back."""
Runs = Mapping[str, Sequence[Mapping[str, Any]]]
"""Runs of all methods by the set they were trained on."""


def load(results: Path) -> dict[str, list[dict[str, Any]]]:
    """Runs by the set they were trained on, in the order of their names, without those that collapsed."""
    return {
        name: [run for run in _read(results) if run["trained_on"] == name and "searched" in run] for name in TRAINED
    }


def _read(results: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("transfer-*.json"))]


def collapsed(results: Path) -> str:
    """Name the runs that have no rows because their network collapsed; empty if none did."""
    found = [f"{run['method']} on {NAMES[run['trained_on']]}" for run in _read(results) if "collapsed" in run]
    return f"Collapsed in training, and therefore without rows: {', '.join(found)}." if found else ""


def of_method(runs: Sequence[Mapping[str, Any]], method: str = METHOD) -> list[Mapping[str, Any]]:
    """Runs of one method; on CIFAR-10 its name ends in the views."""
    return [run for run in runs if run["method"].removesuffix("-wide") == method]


def cell(run: Mapping[str, Any], searched: str, row: str, metric: str, length: int | None) -> Cell:
    """One figure of one run; `length` None is the full length, which shorter codes have in place of longer ones."""
    tables = run["searched"][searched]
    if row == "random":
        draws = [cell(run, searched, f"random features, draw {draw}", metric, length) for draw in range(DRAWS)]
        return mean(value for value, _ in draws), draws[0][1]
    found = tables[f"{run['before']} aligned" if row == BEFORE else row]
    line = found[-1] if length is None else next((line for line in found if line["dim"] == length), found[-1])
    value, error = line[metric]
    return value, error


def averaged(
    runs: Sequence[Mapping[str, Any]], searched: str, row: str, metric: str, length: int | None
) -> Cell | None:
    """The mean of a figure over seeds, with the largest of their standard errors; None for a row that was not run."""
    method, _, code = row.rpartition(": ")
    cells = [cell(run, searched, code, metric, length) for run in of_method(runs, method or METHOD)]
    return (mean(value for value, _ in cells), max(error for _, error in cells)) if cells else None


def every_cell(runs: Runs, metric: str) -> Iterator[tuple[str, str, int | None, dict[str, Cell]]]:
    """Every pair of sets at every length, with the figure of each row."""
    for trained, of_set in runs.items():
        for searched in SEARCHED:
            for length in (*LENGTHS, None):
                found = {row: averaged(of_set, searched, row, metric, length) for row in ROWS}
                yield trained, searched, length, {row: value for row, value in found.items() if value is not None}


def holds(cells: Mapping[str, Cell], row: str) -> tuple[bool, bool]:
    """Tell whether a row is first, and whether it is within 2 % or two standard errors of the first."""
    best = max(value for value, _ in cells.values())
    value, error = cells[row]
    return value >= best, value >= best - max(0.02 * best, 2 * error)


def gain(runs: Runs, metric: str, against: str, seen: bool) -> float:
    """Mean ratio of full-length codes of the default to another row's, where training saw the set, or did not."""
    ratios = [
        cells[DEFAULT][0] / cells[against][0]
        for trained, searched, length, cells in every_cell(runs, metric)
        if length is None and (trained == searched) == seen
    ]
    return mean(ratios)


def page(results: Path) -> str:
    """The whole page."""
    runs = load(results)
    parts = [
        *_parts(of_seeds(runs, AVERAGED), collapsed(results)),
        *_confirmation(of_seeds(runs, CONFIRMING)),
        *criteria_tables.parts(results),
    ]
    return "\n\n".join(parts) + "\n"


def of_seeds(runs: Runs, seeds: Sequence[int]) -> dict[str, list[Mapping[str, Any]]]:
    """Runs of these seeds; rivals have one seed, which goes with the averages."""

    def belongs(run: Mapping[str, Any]) -> bool:
        return run["seed"] in seeds if of_method([run]) else seeds == AVERAGED

    return {name: [run for run in of_set if belongs(run)] for name, of_set in runs.items()}


def _confirmation(runs: Runs) -> Iterator[str]:
    """The summary of seeds that nothing was chosen on."""
    if not all(runs.values()):
        return
    yield "## A seed that nothing was chosen on"
    yield (
        "Seed 3 was run after the code was settled. Its set of Tiny-ImageNet numbered the classes in another order, so "
        "that other classes were held back; hence it is not averaged with the others."
    )
    yield "\n".join(_lost(runs))
    yield _summary(runs)
    yield _made_by([run for of_set in runs.values() for run in of_set])


def _parts(runs: Runs, collapsed: str) -> Iterator[str]:
    yield "# Codes of classes and sets not seen in training"
    yield (
        "<!-- Generated by `python -m benchmarks vision page` from `benchmarks/vision/results/transfer-*.json`; do not "
        "edit. -->"
    )
    gains = [
        gain(runs, METRICS[0], against, saw) - 1
        for against, saw in ((BEFORE, False), (BEFORE, True), ("encoder PCA, centred", False))
    ]
    unseen, seen, pca = (f"{value:+.1%}" for value in gains)
    new, old = ("gain" if value > 0 else "lose" for value in gains[:2])
    yield (
        f"By {METRICS[0]}, full codes of today's default {new} on classes and sets that training never saw, and {old} "
        "on those that it saw. The table has two more measures. Mean change:"
    )
    yield (
        f"- not seen: {unseen} against the default before it, and {pca} against PCA of the encoder;\n"
        f"- seen: {seen} against the default before it."
    )
    yield (
        "What is lost, as trained → searched at a number of features. A cell counts as lost if the default is neither "
        "within 2 % nor within two standard errors of the best row. The sets: "
        + "; ".join(f"`{key}` is {name}" for key, name in NAMES.items())
        + "."
    )
    yield "\n".join(_lost(runs))
    yield _summary(runs)
    yield "## What was measured"
    yield (
        "Each network is trained on one set, for 50 epochs of its recipe, and searches that set and every other. "
        "The classes of Tiny-ImageNet are divided so that 20 of them are never seen in training. The gallery is all "
        "training images of the searched set, and the queries are its first 2,000 test images, resized for the "
        "network. Codes are compared by cosine. [The method](method.md) explains staged codes."
    )
    yield (
        "Seeds 2 and 3 are clean; the tables average seeds 1 and 2. The length, lift and ridge of the head were chosen "
        "with the labels of the test queries, on the networks trained on CIFAR-10 and COCO with seeds 0 "
        "and 1. The kinds of codes to compare were chosen after looking at all networks of these seeds, those trained "
        "on Tiny-ImageNet included. Seed 0 has no rows here, because it was measured before the order of the features "
        "was final."
    )
    yield (
        "Rivals that are networks of their own have one seed, with the same classes held back. Each is trained at the "
        "rate that was best for it on held-out images of CIFAR-10."
    )
    if collapsed:
        yield collapsed
    for trained, of_set in runs.items():
        yield f"## Trained on {NAMES[trained]}"
        yield f"{METRICS[0]}, mean over seeds."
        for searched in SEARCHED:
            head = [f"searched: {NAMES[searched]}", *(str(length) for length in LENGTHS), "full"]
            found = {row: [averaged(of_set, searched, row, METRICS[0], d) for d in (*LENGTHS, None)] for row in ROWS}
            rows = [[ROWS[row], *(f"{value[0]:.3f}" for value in cells if value)] for row, cells in found.items()]
            yield table(head, emphasise([row for row in rows if len(row) > 1]))
        yield _made_by(of_set)
    yield "## Other heads and lifts"
    yield (
        f"Seed 1. Ratio of {METRICS[0]} to that of the default, averaged over all searched sets and all lengths, for "
        "sets seen in training and for others."
    )
    yield _variants(runs)


def _summary(runs: Runs) -> str:
    rows = []
    for metric in METRICS:
        cells = list(every_cell(runs, metric))
        first, near = (sum(holds(found, DEFAULT)[i] for *_, found in cells) for i in (0, 1))
        near_before = sum(holds(found, BEFORE)[1] for *_, found in cells)
        rows.append(
            [
                metric,
                f"{first} of {len(cells)}",
                f"{near} of {len(cells)}",
                f"{near_before} of {len(cells)}",
                f"{gain(runs, metric, BEFORE, seen=False) - 1:+.1%}",
                f"{gain(runs, metric, BEFORE, seen=True) - 1:+.1%}",
                f"{gain(runs, metric, 'encoder PCA, centred', seen=False) - 1:+.1%}",
            ]
        )
    head = [
        *("metric", "default first", "default near the best", "the default before near the best"),
        *("full length, unseen, against before", "seen, against before", "unseen, against centred encoder PCA"),
    ]
    return table(head, rows)


def _lost(runs: Runs) -> Iterator[str]:
    for metric in METRICS:
        lost: dict[str, list[str]] = {}
        for trained, searched, length, cells in every_cell(runs, metric):
            if not holds(cells, DEFAULT)[1]:
                lost.setdefault(f"{trained} → {searched}", []).append("full" if length is None else str(length))
        words = "; ".join(f"{pair} at {', '.join(at)}" for pair, at in lost.items())
        yield f"- {metric}: {words or 'none'}."


def _lost_in_short(cells: Sequence[tuple[str, str, int | None, dict[str, Cell]]]) -> str:
    """Name the lost cells, one sentence for each set of training."""
    lost: dict[str, dict[str, list[str]]] = {}
    for trained, searched, length, found in cells:
        if not holds(found, DEFAULT)[1]:
            at = "full" if length is None else str(length)
            lost.setdefault(trained, {}).setdefault(searched, []).append(at)
    ends = {of: ", ".join(f"{name} ({', '.join(at)})" for name, at in pairs.items()) for of, pairs in lost.items()}
    return " ".join(f"`{trained}` → {said}." for trained, said in ends.items()) or "None."


SHORT_ROWS, SHORT_LENGTHS = (DEFAULT, BEFORE, "encoder PCA, centred", "random"), (8, 16, 64, None)
"""Rows and lengths of the table in README.md; methods that were not run on every set are left out."""
SHORT_METHODS = ("matryoshka-scl: projector, own order", "paper: projector, own order")


def in_short(results: Path) -> str:
    """The table of README.md: means over sets that training saw and over those that it did not; and what is lost."""
    runs = of_seeds(load(results), AVERAGED)
    if not all(runs.values()):
        return "Not run yet."
    cells = list(every_cell(runs, METRICS[0]))
    known = [row for row in SHORT_METHODS if all(row in found for *_, found in cells)]
    rows = []
    for row in (*SHORT_ROWS, *known):
        figures = [
            mean(
                found[row][0]
                for trained, searched, at, found in cells
                if at == length and (trained == searched) == seen
            )
            for seen in (True, False)
            for length in SHORT_LENGTHS
        ]
        rows.append([ROWS[row], *(f"{figure:.3f}" for figure in figures)])
    lengths = ["full" if length is None else str(length) for length in SHORT_LENGTHS]
    head = ["code", *(f"{words} {length}" for words in ("seen:", "unseen:") for length in lengths)]
    near, first = (sum(holds(found, DEFAULT)[i] for *_, found in cells) for i in (1, 0))
    said = (
        f"The default is first in {first} of {len(cells)} comparisons, and near the first (within 2 % or two standard "
        f"errors) in {near}. It loses in these, trained → searched (features). {_lost_in_short(cells)}"
    )
    return textwrap.fill(said, 120, break_on_hyphens=False) + "\n\n" + table(head, emphasise(rows))


def _variants(runs: Runs) -> str:
    rows = []
    measured = [(name, run) for name, of_set in runs.items() for run in of_method(of_set) if run["seed"] == 1]
    for head, lift in VARIANTS:
        row = f"staged, head {head}, lift {lift:g}"
        cells = []
        for seen in (True, False):
            ratios = [
                cell(run, searched, row, METRICS[0], d)[0] / cell(run, searched, DEFAULT, METRICS[0], d)[0]
                for name, run in measured
                for searched in SEARCHED
                for d in (*LENGTHS, None)
                if (name == searched) == seen
            ]
            cells.append(f"{mean(ratios) - 1:+.1%}")
        rows.append([f"{head} features, lift {lift:g}" if head else "no head: the encoder alone", *cells])
    return table(["head", "seen", "unseen"], rows)


def _made_by(runs: Sequence[Mapping[str, Any]]) -> str:
    return made_by([{**run, "job": {"seed": run["seed"]}} for run in runs])
