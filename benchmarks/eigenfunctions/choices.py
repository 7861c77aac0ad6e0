"""Three choices inside the default estimator, each against its alternative.

    python -m benchmarks.eigenfunctions.choices                    # run what is missing, print the table
    python -m benchmarks.eigenfunctions.choices --seconds 240      # as much of it as fits

- *probes*: the last layer solved by Rayleigh-Ritz alone, or also fitted at probes around the points. The 2-D problem of
  `known.py`, 20 modes, mean overlap with exact Nystroem's functions at the nodes.
- *cut*: the whole span of the hidden layer, or the part supported by held-out nodes. The block model of `known.py`,
  mean alignment with the truth.
- *offset*: tau of the log-det on blocks of many points. 16,000 points of `kernel_stream.py` in 16 dimensions, 32
  functions, share of the kernel's spectrum captured on 4,096 fresh points.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import harness
from benchmarks.eigenfunctions import RESULTS, kernel_stream
from benchmarks.eigenfunctions.problems import PROBLEMS
from benchmarks.eigenfunctions.rivals.exact import nystroem
from benchmarks.eigenfunctions.scores import alignments, normalised
from eigenmap.estimators import NeuralEigenmap
from eigenmap.kernels.ritz import DISTINCT, rayleigh_ritz, solve
from eigenmap.kernels.train import OFFSET, OFFSET_OF_BLOCKS
from eigenmap.relations.operator import KernelOperator, MatrixOperator

FILE = "eigen-choices.json"
SEEDS = (0, 1, 2)
Measurement = Iterator[tuple[str, float]]
"""A setting and its figure."""


def probes(seed: int) -> Measurement:
    """Overlap with Nystroem's functions, with and without probes, in the span of the same network."""
    problem = PROBLEMS["rbf-2d"]
    k, sample, nodes = problem.n_components, problem.sample(512, seed), problem.truth.nodes
    model = NeuralEigenmap(k, kernel_params=problem.kernel_params, random_state=seed).fit(sample.x.numpy())
    span, operator = model._solver.functions.span, KernelOperator(sample.x, problem.kappa)
    exact = normalised(nystroem(sample.gram, k)[1](sample.cross(nodes)), problem.truth.weights)
    heads = {
        "without": rayleigh_ritz(span(sample.x), operator)[1][:, :k],
        "with": solve(span, operator, k, model._solver.scale, model._solver.seed).head,
    }
    for name, head in heads.items():
        mine = normalised(span(nodes) @ head, problem.truth.weights)
        yield name, float((mine * exact).sum(0).abs().mean())


def cut(seed: int) -> Measurement:
    """Alignment of the block model's functions, from the whole span and from the supported part."""
    problem = PROBLEMS["sbm"]
    k, sample, truth = problem.n_components, problem.sample(512, seed), problem.truth
    model = NeuralEigenmap(k, kernel="precomputed", random_state=seed).fit(sample.x.numpy(), gram=sample.gram.numpy())
    span = model._solver.functions.span
    whole = rayleigh_ritz(span(sample.x), MatrixOperator(sample.x, sample.gram), DISTINCT)[1][:, :k]
    for name, head in {"whole span": whole, "cut by held-out nodes": model._solver.functions.head}.items():
        yield name, float(alignments(normalised(span(truth.nodes) @ head, truth.weights), truth, k).mean())


def offset(seed: int) -> Measurement:
    """Captured spectrum after training on blocks with either offset."""
    x, fresh = kernel_stream.points(16_000, seed).numpy(), kernel_stream.points(4096, 1000 + seed)
    params = {"length_scale": kernel_stream.LENGTH_SCALE}
    for tau in (OFFSET, OFFSET_OF_BLOCKS):
        model = NeuralEigenmap(32, kernel_params=params, objective_params={"tau": tau}, random_state=seed).fit(x)
        codes: Tensor = torch.from_numpy(model.transform(fresh.double().numpy()))
        yield f"tau = {tau:g}", kernel_stream.captured(codes, fresh)


CHOICES: dict[str, Callable[[int], Measurement]] = {"probes": probes, "cut": cut, "offset": offset}
TITLES = {
    "probes": "probes in the last layer (2-D): mean overlap with exact Nystroem",
    "cut": "span of the last layer (block model): mean alignment",
    "offset": "offset of the log-det on blocks (16-D): captured spectrum",
}


def run_missing(path: Path, until: float, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Run what is missing until the given time; return all results."""
    runs: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []
    for seed in SEEDS:
        for name in names or CHOICES:
            if any((run["choice"], run["seed"]) == (name, seed) for run in runs) or time.monotonic() > until:
                continue
            runs.append({"choice": name, "seed": seed, "figures": dict(CHOICES[name](seed)), **harness.environment()})
            harness.write(path, {"runs": runs})
            print(f"{name}, seed {seed}: {runs[-1]['figures']}", flush=True)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--choices", nargs="+", choices=CHOICES, default=list(CHOICES))
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no run after this many seconds")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="folder of results")
    words = parser.parse_args()
    torch.set_num_threads(1)
    for run in run_missing(words.folder / FILE, time.monotonic() + words.seconds, words.choices):
        print(f"{TITLES[run['choice']]}, seed {run['seed']}: {run['figures']}")


if __name__ == "__main__":
    main()
