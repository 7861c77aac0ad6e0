"""Generator of docs/benchmarks.md, from the results alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.common.pages import NONE, NOT_RUN, accuracies, emphasise, figure, lost, made_by, table
from benchmarks.vision import evaluation_cost, plan
from benchmarks.vision.accuracy_tables import accuracy, other_settings
from benchmarks.vision.choices import choices
from benchmarks.vision.jobs import METHODS, Job
from benchmarks.vision.record_tables import large_batches, records
from benchmarks.vision.speed_tables import speed

COLUMNS = (*(str(2**i) for i in range(1, 11)), "full")
Result = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One row of a retrieval table: a training, and a kind of code of its outputs."""

    label: str
    method: str
    code: str
    """A name in the results; "aligned" is the output that held-out pairs chose, rotated on training pairs."""

    def curve(self, result: Result, metric: str, tables: dict[str, Any]) -> dict[str, float]:
        """Length -> value; the last length is also "full"."""
        name = f"{result['chosen_source']} aligned" if self.code == "aligned" else self.code
        rows = tables[name]
        return {f"{row['dim']:g}": row[metric] for row in rows} | {"full": rows[-1][metric]}


DEFAULT = Row("**ours**: SCL, projector aligned", "scl", "aligned")
LEADING = (
    DEFAULT,
    Row("Matryoshka-SCL (4 ... 2,048), own order", "matryoshka-scl", "projector own order"),
    Row("SCL, centred PCA of the encoder", "scl", "encoder PCA centred"),
    Row("the paper's ordered objective, own order", "paper", "projector own order"),
)
SAME_TRAININGS = (
    Row("the paper's ordered objective, aligned", "paper", "aligned"),
    Row("SCL, uncentred PCA of the encoder", "scl", "encoder PCA uncentred"),
    Row("SCL, random features", "scl", "projector random features"),
    Row("Matryoshka-SCL, aligned", "matryoshka-scl", "aligned"),
)
CANDIDATES = (
    Row("Gram penalty, own order", "gram", "projector own order"),
    Row("Gram penalty, aligned", "gram", "aligned"),
    Row("nested moments, own order", "nested", "projector own order"),
    Row("nested moments, aligned", "nested", "aligned"),
)
UNORDERED = (
    Row("NeuralEF without stop-gradient, random features", "paper-unordered", "projector random features"),
    *(
        Row(f"{words}, {kind}", method, code)
        for method, words in (("barlow-twins", "Barlow Twins"), ("vicreg", "VICReg"), ("simclr", "SimCLR"))
        for kind, code in (("random features", "projector random features"), ("aligned", "aligned"))
    ),
)


class Results:
    """All result files of a folder, by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.by_name: dict[str, Result] = {
            path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))
        }

    def of(self, job: Job) -> Result | None:
        return self.by_name.get(job.name)

    def screened(self, method: str) -> dict[float, Result]:
        """Rate -> result of the screening, for the rates that ran."""
        jobs = {rate: Job("cifar10", method, rate, plan.SCREENING_EPOCHS) for rate in METHODS[method].rates}
        return {rate: result for rate, job in jobs.items() if (result := self.of(job)) is not None}

    def best_screened(self, method: str) -> list[Result]:
        """The screening run with the best held-out kNN accuracy so far; none if nothing ran."""
        found = self.screened(method).values()
        return [max(found, key=lambda result: result.get("knn_held_out", 0.0))] if found else []

    def finals(self, data: str, method: str) -> list[Result]:
        """Return all seeds of the 50-epoch runs of a method, at the best rate on held-out images if several ran."""
        runs = []
        for rate in METHODS[method].rates:
            jobs = [Job(data, method, rate, plan.FINAL_EPOCHS, seed) for seed in plan.SEEDS]
            runs.append([result for job in jobs if (result := self.of(job)) is not None])
        return max(runs, key=lambda found: found[0].get("knn_held_out", 0.0) if found else -1.0)

    def repeats(self) -> Iterator[tuple[Result, Result]]:
        """Runs that were made twice with the same seed."""
        for name, result in self.by_name.items():
            first = self.by_name.get(name.removesuffix("-repeat"))
            if name.endswith("-repeat") and first is not None:
                yield first, result


def retrieval_rows(
    rows: Sequence[Row], runs: dict[str, list[Result]], metric: str, transfer: str | None = None
) -> list[list[str]]:
    """Return the cells of a retrieval table; a row without results says "not run" or "collapsed"."""
    cells = []
    for row in rows:
        results = runs.get(row.method, [])
        failed = sum("collapsed" in result for result in results)
        if not results or failed:
            word = f"collapsed ({failed} of {len(results)})" if failed else NOT_RUN
            cells.append([row.label, *[word] * len(COLUMNS)])
            continue
        curves = [
            row.curve(result, metric, result["retrieval"] if transfer is None else result["transfer"][transfer])
            for result in results
        ]
        # Seeds may choose outputs of different widths: a column is for lengths that all of them have.
        found = ([curve[column] for curve in curves if column in curve] for column in COLUMNS)
        cells.append([row.label, *(figure(values) if len(values) == len(curves) else NONE for values in found)])
    return cells


def retrieval_table(
    rows: Sequence[Row], runs: dict[str, list[Result]], metric: str, transfer: str | None = None
) -> str:
    return table(["code", *COLUMNS], emphasise(retrieval_rows(rows, runs, metric, transfer)))


def used(rows: Sequence[Row], runs: dict[str, list[Result]]) -> list[Result]:
    """The results behind a table."""
    return [result for method in dict.fromkeys(row.method for row in rows) for result in runs.get(method, [])]


def screening(results: Results) -> Iterator[str]:
    rows = (*LEADING, *SAME_TRAININGS, *CANDIDATES)
    runs = {method: results.best_screened(method) for method in plan.SCREENED}
    yield "## CIFAR-10, screening: 20 epochs"
    yield (
        "mAP over found@1000 at each code length: ResNet-18 with the 3 x 3 stem, k = 2,048, batch 512, one seed. Each "
        "method has the rate with the best held-out kNN accuracy among those that ran. Encoder codes have 512 "
        "features. Random features are the mean of ten draws. Bold marks the best of a column."
    )
    ran = {method: results.screened(method) for method in plan.SCREENED}
    yield (
        "Rates that ran: "
        + ", ".join(f"{method} {len(found)} of {len(METHODS[method].rates)}" for method, found in ran.items())
        + ". Where fewer ran, the method may be better than its row."
    )
    yield retrieval_table(rows, runs, "map_over_found@1000")
    yield made_by(used(rows, runs))
    yield _worth(runs)
    yield _repeats(results)


def _worth(runs: dict[str, list[Result]], dim: int = 16) -> str:
    """Report the number of random features that a short code of the default is worth."""
    if not runs.get(DEFAULT.method) or any("collapsed" in result for result in runs[DEFAULT.method]):
        return f"What {dim} features of the default are worth in random features: {NOT_RUN}."

    def average(row: Row, metric: str = "map_over_found@1000") -> dict[str, float]:
        curves = [row.curve(result, metric, result["retrieval"]) for result in runs[row.method]]
        return {column: mean(curve[column] for curve in curves) for column in COLUMNS if column in curves[0]}

    ours = average(DEFAULT)[str(dim)]
    unordered = {
        f"{method} ({source})": average(Row("", method, f"{source} random features"))
        for method in ("scl", "paper-unordered", "barlow-twins", "vicreg", "simclr")
        if runs.get(method) and not any("collapsed" in result for result in runs[method])
        for source in ("encoder", "projector")
    }
    name = max(unordered, key=lambda method: unordered[method]["full"])
    enough = next((column for column, value in unordered[name].items() if value >= ours), None)
    needed = f"reach that at {enough}" if enough else "never reach that"
    return (
        f"{dim} features of the default give {ours:.3f}; random features of the best unordered rival that ran, {name}, "
        f"{needed} ({unordered[name]['256']:.3f} at 256, {unordered[name]['full']:.3f} at full length)."
    )


def _repeats(results: Results) -> str:
    """Describe the difference of two runs with the same seed in one line."""
    said = []
    for first, second in results.repeats():
        curves = [DEFAULT.curve(result, "map_over_found@1000", result["retrieval"]) for result in (first, second)]
        apart = [abs(curves[0][column] - curves[1][column]) for column in COLUMNS]
        knn = abs(first["knn_test"] - second["knn_test"])
        job = first["job"]
        said.append(
            f"{job['method']} at rate {job['rate']:g}: mAP of the aligned code {mean(apart):.3f} apart on average over "
            f"the lengths, at most {max(apart):.3f}; kNN {knn:.3f}"
        )
    if not said:
        return f"Run-to-run difference at the same seed: {NOT_RUN}."
    return (
        "Run-to-run difference at the same seed, since training on a GPU is not reproducible to the bit:\n\n"
        + "\n".join(f"- {line}" for line in said)
    )


def rates(results: Results) -> Iterator[str]:
    yield "## CIFAR-10, the grid of rates"
    yield (
        "20 epochs, one seed. Once all rates have run, every later run has the rate with the best kNN accuracy on "
        "held-out training images. kNN: 200 neighbours, temperature 0.1, on encoder features. Linear: closed-form "
        "ridge."
    )
    names = ("knn_held_out", "knn_test", "linear_ridge_test")
    rows = []
    for method in plan.SCREENED:
        found = results.screened(method)
        for rate in METHODS[method].rates:
            name = f"{method}, {METHODS[method].optimizer.upper()} {rate:g}"
            rows.append([name, *accuracies(found.get(rate), *names)])
    yield table(["method and rate", "kNN held out", "kNN test", "linear test"], rows)
    yield made_by([result for method in plan.SCREENED for result in results.screened(method).values()])
    yield (
        "Grids after 10 epochs: for the other rows, for SCL with LARS, and for the paper's objective with SGD. The "
        "latter has a twentieth of the usual rates, since the loss is 20 times larger, and two of the usual ones, "
        "since its gradient is clipped."
    )
    briefly = {
        f"{method}, {METHODS[method].optimizer.upper()} {rate:g}": results.of(plan.brief(method, rate))
        for method in plan.BRIEFLY_SCREENED
        for rate in METHODS[method].rates
    }
    rows = [[name, *accuracies(found, *names)] for name, found in briefly.items()]
    yield table(["method and rate", "kNN held out", "kNN test", "linear test"], rows)
    yield made_by([result for result in briefly.values() if result is not None])


def finals(results: Results) -> Iterator[str]:
    rows = (*LEADING, *SAME_TRAININGS, *CANDIDATES, *UNORDERED)
    methods = (*plan.LEADING, *plan.OTHERS)
    runs = {method: results.finals("cifar10", method) for method in methods}
    yield "## CIFAR-10, finals: 50 epochs"
    yield "As above. With several seeds, mean ± standard deviation."
    yield retrieval_table(rows, runs, "map_over_found@1000")
    yield made_by(used(rows, runs))
    yield _worth(runs)
    cells = []
    for method in methods:
        usable = [result for result in runs[method] if "collapsed" not in result]
        names = ("knn_test", "linear_ridge_test")
        shown = [figure([result[name] for result in usable]) if usable else NOT_RUN for name in names]
        cells.append([method, *shown, str(len(runs[method]))])
    yield table(["method", "kNN test", "linear test", "seeds"], cells)


def crops(results: Results) -> Iterator[str]:
    rows = (*LEADING, *SAME_TRAININGS)
    runs = {method: results.finals("cifar10", plan.wider(method)) for method in plan.LEADING}
    yield "## CIFAR-10, wider crops: 50 epochs"
    yield (
        "The leading rows again, with crops of a fifth of the image and more, as in the recipe `cifar10-resnet18`, "
        "at the rates found with the narrower crops."
    )
    if not any(runs.values()):
        yield made_by([])
        return
    ran = ", ".join(f"{plan.wider(method)} {len(found)}" for method, found in runs.items())
    yield f"Seeds that ran, of {len(plan.SEEDS)}: {ran}."
    yield retrieval_table(rows, runs, "map_over_found@1000")
    yield made_by(used(rows, runs))
    yield _worth(runs)


def many_features(results: Results) -> Iterator[str]:
    """The ordered objectives at the paper's number of features."""
    finished = plan.Finished(results.folder)
    runs = {job.method: [found] for job in plan.wide(finished) if (found := results.of(job)) is not None}
    rows = tuple(row for row in (*LEADING, *SAME_TRAININGS, *CANDIDATES) if row.method in plan.ORDERED)
    yield f"## CIFAR-10, k = {max(plan.WIDTHS):,}: {plan.SCREENING_EPOCHS} epochs"
    yield "The ordered objectives with as many features as in the paper, one seed. The encoder has 512 features."
    yield retrieval_table(rows, runs, "map_over_found@1000")
    names = ("knn_held_out", "knn_test", "linear_ridge_test")
    cells = [[method, *accuracies(next(iter(runs.get(method, [])), None), *names)] for method in plan.ORDERED]
    yield table(["method", "kNN held out", "kNN test", "linear test"], cells)
    yield made_by(used(rows, runs))


def best_long_run(results: Results) -> Result | None:
    """Of the runs of 200 epochs that have codes, the best on held-out images."""
    done = [run for name, run in results.by_name.items() if name.startswith("accuracy-") and "retrieval" in run]
    return max(done, key=lambda run: float(run["knn_held_out"]), default=None)


def long_runs(results: Results) -> Iterator[str]:
    """The codes of the best run of 200 epochs."""
    best = best_long_run(results)
    if best is None:
        return
    rows = tuple(row for row in (*LEADING, *SAME_TRAININGS) if row.method == plan.DEFAULT)
    runs = {plan.DEFAULT: [best]}
    yield f"Codes of {best['job']['method']} after {best['job']['epochs']} epochs, mAP over found@1000:"
    yield retrieval_table(rows, runs, "map_over_found@1000")
    yield _worth(runs)


def other_sets(results: Results) -> Iterator[str]:
    for data, title, metrics in (
        (
            "coco",
            "COCO, multi-label, trained on its own training split",
            ("map_over_found@1000", "map_over_found@5000"),
        ),
        ("tiny", "Tiny-ImageNet-100", ("map_over_found@1000",)),
    ):
        runs = {method: results.finals(data, method) for method in plan.LEADING}
        rows = (*LEADING, *SAME_TRAININGS)
        yield f"## {title}: 50 epochs"
        for metric in metrics:
            words = metric.replace("map_over_found", "mAP over found")
            yield f"{words}. An image is relevant if it shares at least one label."
            yield retrieval_table(rows, runs, metric)
        yield made_by(used(rows, runs))
    yield "## Tiny-ImageNet-100 to COCO, without fine-tuning"
    yield "mAP over found@5000. Alignment and PCA also come from Tiny-ImageNet-100."
    yield retrieval_table(rows, runs, "map_over_found@5000", transfer="coco")
    yield made_by(used(rows, runs))


def robustness(results: Results) -> Iterator[str]:
    yield "## Robustness: batch x k x optimiser"
    yield (
        "Linear accuracy (closed-form ridge) on the test images: CIFAR-10, 10 epochs, one seed. The rate grows with "
        "the batch. At batch 2,048 it is a half, a quarter or an eighth of that, where this did better on held-out "
        "images at k = 2,048 (scl and neuralef; neuralef-gram has the whole rate). Goal for the default: no collapse, "
        "and within 3 points of its best."
    )
    finished = plan.Finished(results.folder)
    shapes = [(k, batch) for k in sorted(plan.WIDTHS) for batch in sorted(plan.BATCHES)]
    shown: list[Result] = []
    rows = []
    for method in (*plan.ROBUST, *plan.ROBUST_ORDERED):
        found = [_robust(results, finished, method, *shape) for shape in shapes]
        cells = [accuracies(result, "linear_ridge_test")[0] for result in found]
        rows.append([f"{METHODS[method].objective}, {METHODS[method].optimizer.upper()}", *cells])
        shown += [result for result in found if result is not None]
    yield table(["objective, optimiser", *(f"k {k}, batch {batch}" for k, batch in shapes)], rows)
    yield made_by(shown)
    yield _few_steps(results, finished)


def _few_steps(results: Results, finished: plan.Finished) -> str:
    """Report the default's accuracy at the usual batch with as few steps as a large batch takes."""
    said = [
        f"{accuracies(results.of(job), 'linear_ridge_test')[0]} after {_steps(job)} steps ({job.epochs} epochs)"
        for job in plan.few_steps(finished)
    ]
    large = _steps(plan.brief(plan.DEFAULT, 1.0, batch_size=plan.LARGE))
    return (
        f"At batch {plan.LARGE:,} ten epochs are {large} steps. At batch {plan.BATCH} the default has "
        f"{' and '.join(said) or NOT_RUN}, each with its own schedule: that is what so few steps can do."
    )


def _steps(job: Job) -> int:
    """Steps of a run on nine tenths of the images."""
    return job.epochs * (job.set.train_images * 9 // 10 // job.batch_size)


def _robust(results: Results, finished: plan.Finished, method: str, k: int, batch: int) -> Result | None:
    """Return the run at the rate chosen for this batch; until that is known, the best of those that ran."""
    rate = finished.rate_at(method, batch)
    chosen = None if rate is None else results.of(plan.brief(method, rate, k, batch))
    tried = {share * rate for rate in METHODS[method].rates for share in plan.SHARES}
    others = [found for rate in tried if (found := results.of(plan.brief(method, rate, k, batch))) is not None]
    return chosen or max(others, key=lambda result: float(result.get("knn_held_out", 0.0)), default=None)


def compared(results: Results) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the name and the cells of each table of 50 epochs; the first row is the default's."""
    rows, metric = (*LEADING, *SAME_TRAININGS), "map_over_found@1000"
    finals = {data: {method: results.finals(data, method) for method in plan.LEADING} for data in ("coco", "tiny")}
    every = {method: results.finals("cifar10", method) for method in (*plan.LEADING, *plan.OTHERS)}
    wide = {method: results.finals("cifar10", plan.wider(method)) for method in plan.LEADING}
    yield "CIFAR-10", retrieval_rows((*rows, *CANDIDATES, *UNORDERED), every, metric)
    yield "CIFAR-10, wider crops", retrieval_rows(rows, wide, metric)
    yield "COCO", retrieval_rows(rows, finals["coco"], metric)
    yield "Tiny-ImageNet-100", retrieval_rows(rows, finals["tiny"], metric)
    yield "Tiny-ImageNet-100 to COCO", retrieval_rows(rows, finals["tiny"], "map_over_found@5000", transfer="coco")


TITLE = """\
# Images: every table

<!-- Generated by `python -m benchmarks vision page` from the files in `benchmarks/vision/results/`; do not edit. -->"""
LOST = """\
Where ours loses after 50 epochs: each line names the rows that are ahead of ours, and at how many features. *Ours* is
SCL with an aligned projector. The measure is mAP over found@1000 (the last line: @5000), to three digits."""
HEAD = """## What was measured

`python -m benchmarks vision missing` lists the runs that are missing. [Objectives compared](objective-study.md) says
what was tried and chosen. The embedded catalogue has [its own page](catalogue.md).

- **Held out** is a tenth of the training images. It is used to align, to choose the output that becomes the code, and
  to choose the rate. Nothing is chosen on the queries.
- **Search.** The gallery is all training images. The queries are the first 2,000 test images of CIFAR-10, and all test
  images of the other sets. Codes are cut and compared by cosine, at the final epoch.
- **mAP over found@M**: add up the precisions at the relevant items among the first M results, divide by the number of
  these items, and take the mean over queries.

Rows of the paper's objective, ordered (`paper`, `neuralef`) or not (`paper-unordered`), train the published loss:
`scale` = 20, alpha = 204.8 / k in the convention of [the method](method.md).
"""


def page(folder: Path) -> str:
    """The whole page."""
    results = Results(folder)
    parts = (screening, rates, finals, crops, many_features, other_sets, robustness)
    blocks = [TITLE, LOST, lost(compared(results), COLUMNS), HEAD.strip()]
    blocks += [block for part in parts for block in part(results)]
    blocks += [*other_settings(results.by_name, plan.Finished(folder)), *accuracy(results.by_name), *long_runs(results)]
    blocks += [*large_batches(results.by_name, plan.Finished(folder)), *records(results.by_name, plan.Finished(folder))]
    blocks += [*choices(results.by_name), *speed(results.by_name), *evaluation_cost.section(results.by_name)]
    return "\n\n".join(blocks) + "\n"
