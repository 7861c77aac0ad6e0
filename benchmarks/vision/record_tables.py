"""Sections of docs/benchmarks.md on remedies for large batches, and on long runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.common.pages import NOT_RUN, accuracies, made_by, table
from benchmarks.vision import plan
from benchmarks.vision.jobs import BATCH, METHODS, Job

Results = Mapping[str, dict[str, Any]]
CLOSE = 0.02
"""Loss of accuracy at the large batch that counts as none."""
MEASURED = ("knn_held_out", "knn_test", "linear_ridge_test")


def large_batches(results: Results, finished: plan.Finished) -> Iterator[str]:
    """Yield a table with one row per remedy, at its best rate."""
    usual = results.get(plan.brief(plan.DEFAULT, finished.rate(plan.DEFAULT) or 0.0).name)
    rate = finished.rate_at(plan.DEFAULT, plan.LARGE)
    plain = None if rate is None else results.get(plan.brief(plan.DEFAULT, rate, batch_size=plan.LARGE).name)
    tried = {method: _tried(results, method, rates) for method, rates in plan.REMEDIES.items()}
    found = {method: max(runs, key=_held_out, default=None) for method, runs in tried.items()}
    yield f"## Large batches: ten epochs at batch {plan.LARGE:,}"
    yield (
        f"CIFAR-10, k = 2,048, one seed, each remedy alone. Its rate (for batch {BATCH}) is the best of those tried by "
        f"held-out kNN. Goal: linear accuracy within {CLOSE} of batch {BATCH} at equal epochs."
    )
    few = [results[job.name] for job in plan.few_steps(finished) if MEASURED[-1] in results.get(job.name, {})]
    yield _verdict(usual, {"nothing changed": plain, **{METHODS[name].words: run for name, run in found.items()}}, few)
    rows = [_row(f"nothing changed, batch {BATCH}", usual), _row("nothing changed", plain)]
    for method, rates in plan.REMEDIES.items():
        rows.append(_row(METHODS[method].words, found[method], len(tried[method])))
        rows.append(_row(f"{METHODS[method].words}, batch {BATCH}", results.get(plan.brief(method, rates[0]).name)))
    yield table(["remedy", "rate", "kNN held out", "kNN test", "linear test"], rows)
    yield made_by([run for run in (usual, plain, *found.values()) if run is not None])


def _tried(results: Results, method: str, rates: tuple[float, ...]) -> list[dict[str, Any]]:
    """Return the runs of a remedy at the large batch."""
    runs = [results.get(plan.brief(method, rate, batch_size=plan.LARGE).name) for rate in rates]
    return [run for run in runs if run is not None]


def _held_out(run: Mapping[str, Any]) -> float:
    """Return the accuracy by which runs are chosen."""
    return float(run.get("knn_held_out", 0.0))


def _row(words: str, run: dict[str, Any] | None, tried: int = 1) -> list[str]:
    of = f", best of {tried}" if tried > 1 else ""
    return [words, NOT_RUN if run is None else f"{run['job']['rate']:g}{of}", *accuracies(run, *MEASURED)]


def _verdict(
    usual: dict[str, Any] | None, runs: Mapping[str, dict[str, Any] | None], few: Sequence[Mapping[str, Any]]
) -> str:
    """Say what the best remedy on held-out images loses against the usual batch, and whether that is little enough."""
    known = {name: run for name, run in runs.items() if run is not None and MEASURED[-1] in run}
    if usual is None or not known:
        return "Not run yet."
    best = max(known, key=lambda name: _held_out(known[name]))
    loss = usual[MEASURED[-1]] - known[best][MEASURED[-1]]
    left = [name for name, run in runs.items() if run is None]
    said = f"{'Met' if loss <= CLOSE else '**Missed**'}: the best on held-out images ({best}) loses {loss:.3f}."
    reason = f" {_reason(known[best], few)}" if loss > CLOSE and few else ""
    return said + reason + (f" Not run: {', '.join(left)}." if left else "")


def _reason(best: Mapping[str, Any], few: Sequence[Mapping[str, Any]]) -> str:
    """Compare a large batch with short runs of the usual one, which have about as many steps."""
    figures = ", ".join(f"{run[MEASURED[-1]]:.3f} after {_steps(run):,}" for run in few)
    said = f"It takes {_steps(best):,} steps. At batch {BATCH} and about as many steps, the default has {figures}."
    if best[MEASURED[-1]] < max(run[MEASURED[-1]] for run in few):
        return said
    return f"{said} So the large batch is better step by step; ten epochs are too few steps for it."


def _steps(run: Mapping[str, Any]) -> int:
    job = Job(**run["job"])
    return int(job.epochs * ((1 - job.held_out) * job.set.train_images // job.batch_size))


def records(results: Results, finished: plan.Finished) -> Iterator[str]:
    """Yield a table of candidates and one of the long runs, with their goals."""
    jobs = list(plan.records(finished))
    tried = [job for job in jobs if job.part == "candidates"]
    yield "## Records: what buys accuracy, and long runs"
    yield (
        f"CIFAR-10, ResNet-18, batch {BATCH}, final epoch. Each candidate is the recipe `cifar10-resnet18` with one "
        f"change, {plan.CANDIDATE_EPOCHS} epochs, one seed, a tenth of the training images held out. The best by kNN "
        "of its stored code on held-out images trains for 200, 800 and 1,000 epochs. A constant rate is taken if it is "
        "within a standard error of the best: then a longer run continues a shorter one from before its decay."
    )
    names = ("knn_code_held_out", "knn_code_test", "knn_test", "linear_ridge_test")
    head = ["candidate", "kNN of the code, held out", "kNN of the code, test", "kNN of the encoder", "linear, ridge"]
    yield table(head, [[METHODS[job.method].words, *accuracies(results.get(job.name), *names)] for job in tried])
    yield "\n".join(f"- {line}" for line in _goals(results, jobs))
    yield made_by([results[job.name] for job in jobs if job.name in results])


def _goals(results: Results, jobs: list[Job]) -> Iterator[str]:
    long = {job.epochs: results[job.name] for job in jobs if job.part == "records" and job.name in results}
    for goal in plan.GOALS:
        met, tried = plan.within(goal, long), [epochs for epochs in long if epochs <= goal.epochs]
        longest = max(tried, default=0)
        if met or longest == goal.epochs:
            epochs = met or longest
            value = long[epochs].get(goal.figure)
            figure = "collapsed" if value is None else f"{value:.3f}"
            said = f"{'met' if met else '**missed**'} ({figure}{f' after {epochs:,}' if epochs < goal.epochs else ''})"
        else:
            said = NOT_RUN
        yield f"{goal.epochs:,} epochs, {goal.words}: {said}."
