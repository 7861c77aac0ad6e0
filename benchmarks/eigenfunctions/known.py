"""Eigenfunctions of kernels whose eigenfunctions are known: every method on the same points, in one table.

    python -m benchmarks.eigenfunctions.known                          # run what is missing, print the table
    python -m benchmarks.eigenfunctions.known --seconds 240            # as much of it as fits
    python -m benchmarks.eigenfunctions.known --problems rbf-2d --methods default nystroem --again

Protocol. Every method gets the same n points and the kernel between them. Networks have the same shape, the same number
of full-batch Adam steps in float64 and the same grid of rates; the rate is the one whose features have the largest
eigenvalues on held-out points (mean logarithm), on the first seed, and stays for the others. The default estimator
gets the points and no settings. Functions are judged at quadrature nodes that no method sees. "Before" is a method's
own features in its own order, "after" the same features aligned by the library on the training points.

Each run has its own process: seconds are processor seconds of one thread, and memory is the peak of the process above
its start. Results are one file per problem; a run with a result is not repeated.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import multiprocessing
import time
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import harness
from benchmarks.common.timing import peak_mb
from benchmarks.eigenfunctions import RESULTS
from benchmarks.eigenfunctions.methods import METHODS, Fit, Method, Settings
from benchmarks.eigenfunctions.problems import PROBLEMS, Problem
from benchmarks.eigenfunctions.scores import GOOD, Found, aligned, held_out_score, rayleigh, scores

Run = dict[str, Any]


def measure(problem: Problem, method: Method, seed: int, rate: float, settings: Settings) -> Run:
    """Fit a method once and judge it."""
    sample = problem.sample(settings.n, seed)
    began, memory = time.process_time(), peak_mb()
    try:
        fit = method.fit(problem, sample, seed, rate, settings)
    except torch.linalg.LinAlgError as error:  # GrEASE inverts a triangle that a collapsed network makes singular
        return {"failed": str(error)}
    psi = fit.functions(sample.x)
    rotation, mu = (None, None) if fit.aligned else aligned(psi, sample.gram, problem.n_components)
    cost = {"seconds": time.process_time() - began, "peak_mb": peak_mb() - memory}
    nodes = fit.functions(problem.truth.nodes)
    own = Found(nodes, rayleigh(psi, sample.gram) if fit.mu is None else fit.mu)
    if rotation is None or mu is None:
        return cost | {"before": None, "after": _judge(own, fit, problem), "held_out": None}
    held_out = problem.sample(settings.held_out, seed + 1_000_000)
    return cost | {
        "before": _judge(own, fit, problem),
        "after": _judge(Found(nodes @ rotation, mu), fit, problem),
        "held_out": held_out_score(fit.functions(held_out.x), held_out.gram),
    }


def _judge(found: Found, fit: Fit, problem: Problem) -> Run:
    truth = problem.truth.centred() if fit.centred else problem.truth
    # Centring may leave fewer positive modes than requested; those beyond them are arbitrary.
    k = min(problem.n_components, int((truth.mu > 1e-9 * truth.mu[0]).sum()))
    return scores(Found(found.psi[:, :k], found.mu[:k]), truth, k)


def apart(problem: Problem, method: Method, seed: int, rate: float, settings: Settings) -> Run:
    """Call `measure` in a separate process, to measure its peak memory."""
    _ = problem.truth  # computed once, here, and inherited
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, problem, method, seed, rate, settings))
    process.start()
    theirs.close()
    try:
        answer: Run = ours.recv()
    except EOFError:
        answer = {}
    process.join()
    if not answer:
        raise SystemExit(f"{problem.name}, {method.title}, seed {seed}: the process ended with {process.exitcode}")
    return answer


def _send(pipe: Connection, *job: Any) -> None:
    torch.set_num_threads(1)
    pipe.send(measure(*job))
    pipe.close()


class Results:
    """Runs of one problem, in a file that is rewritten after each."""

    def __init__(self, problem: Problem, settings: Settings, folder: Path) -> None:
        self.path = folder / f"eigenfunctions-{problem.name}.json"
        mu = problem.truth.mu[: problem.n_components].tolist()
        groups = [[j + 1 for j in group] for group in problem.truth.groups(problem.n_components)]
        about = {"name": problem.name, "title": problem.title, "eigenvalues": mu, "groups": groups}
        self.content: dict[str, Any] = {"problem": about, "settings": asdict(settings), "runs": []}
        if self.path.exists():
            self.content["runs"] = json.loads(self.path.read_text(encoding="utf-8"))["runs"]

    def rate(self, name: str) -> float | None:
        """The rate chosen on the first seed."""
        return next((run["rate"] for run in self.content["runs"] if run["method"] == name), None)

    def has(self, name: str, seed: int) -> bool:
        return any((run["method"], run["seed"]) == (name, seed) for run in self.content["runs"])

    def drop(self, names: list[str]) -> None:
        """Forget the runs of these methods."""
        self.content["runs"] = [run for run in self.content["runs"] if run["method"] not in names]
        harness.write(self.path, self.content)

    def add(self, run: Run) -> None:
        order = list(METHODS)
        self.content["runs"].append(run | harness.environment())
        self.content["runs"].sort(key=lambda each: (order.index(each["method"]), each["seed"]))
        harness.write(self.path, self.content)


def best(problem: Problem, method: Method, seed: int, rates: tuple[float, ...], settings: Settings) -> Run:
    """The run at the rate with the best held-out score."""
    runs = {rate: apart(problem, method, seed, rate, settings) for rate in rates}
    tried = {f"{rate:g}": run.get("held_out") for rate, run in runs.items()}
    rate = max(runs, key=lambda each: -math.inf if tried[f"{each:g}"] is None else tried[f"{each:g}"])
    return {"rate": rate, "tried": tried, **runs[rate]}


def run_missing(
    problem: Problem, names: list[str], seed: int, settings: Settings, folder: Path, until: float = float("inf")
) -> None:
    """Run what is missing until the given time."""
    results = Results(problem, settings, folder)
    for name in names:
        method = METHODS[name]
        if results.has(name, seed) or not method.applies(problem):
            continue
        if time.monotonic() > until:
            return
        if not method.tuned:
            run: Run = {"rate": None, **apart(problem, method, seed, 0.0, settings)}
        else:
            known = results.rate(name)
            run = best(problem, method, seed, settings.rates if known is None else (known,), settings)
        results.add({"method": name, "title": method.title, "seed": seed, **run})
        print(f"{problem.name}\n{line(name, seed, run)}", flush=True)


def warm_up() -> None:
    """Import everything that runs need, so that it does not count as memory of the first run."""
    if importlib.util.find_spec("grease") is not None:
        importlib.import_module("grease")
    problem, settings = PROBLEMS["rbf-1d-1"], Settings(n=8, steps=1)
    METHODS["trace"].fit(problem, problem.sample(8, seed=0), 0, 0.01, settings)


def line(name: str, seed: int, run: Run) -> str:
    """Return one row of the printed table: alignment of every mode, the worst eigenvalue, and the cost."""
    if "failed" in run:
        return f"{name:10} seed {seed} failed: {run['failed']}"
    rows = []
    for when in ("before", "after"):
        if run[when] is not None:
            found = run[when]["alignment"]
            modes = " ".join(f"{value:.3f}" for value in found)
            good = f"{sum(value >= GOOD for value in found):2d} of {len(found)} >= {GOOD}"
            worst = max(run[when]["eigenvalue_error"])
            rows.append(
                f"{name:10} seed {seed} {when:6} {modes} | {good}, eigenvalue error <= {worst:.2g}, "
                f"off-diagonal {run[when]['off_diagonal']:.2g}, {run['seconds']:.1f} s, {run['peak_mb']:.0f} MB"
            )
    return "\n".join(rows)


def print_table(problems: list[str], folder: Path) -> None:
    for name in problems:
        path = folder / f"eigenfunctions-{name}.json"
        if path.exists():
            content = json.loads(path.read_text(encoding="utf-8"))
            print(f"\n{content['problem']['title']}; groups {content['problem']['groups']}")
            for run in content["runs"]:
                print(line(run["method"], run["seed"], run))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--again", action="store_true", help="forget earlier runs of these methods on these problems")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no run after this many seconds")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="folder of results")
    words = parser.parse_args()
    until = time.monotonic() + words.seconds
    torch.set_num_threads(1)
    warm_up()
    settings = Settings()
    for name in words.problems if words.again else []:
        Results(PROBLEMS[name], settings, words.folder).drop(words.methods)
    for seed in settings.seeds:  # the first seed of everything before the second of anything
        for name in words.problems:
            run_missing(PROBLEMS[name], words.methods, seed, settings, words.folder, until)
    print_table(words.problems, words.folder)


if __name__ == "__main__":
    main()
