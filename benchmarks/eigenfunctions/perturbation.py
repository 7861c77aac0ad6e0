"""Perturbed kernels, with small eigenvalues lifted or removed: a question left open by the paper.

    python -m benchmarks.eigenfunctions.perturbation                    # run what is missing, print the table
    python -m benchmarks.eigenfunctions.perturbation --seconds 240      # as much of it as fits

The exponential kernel exp(-|x - x'|) on [-2, 2] has eigenvalues that fall like 1/j^2: 256 of them are far from zero and
none repeats. Points are a regular grid of 512, so that expectations are exact and the truth is the matrix's own; the
network sees 384 random Fourier features of x, enough for all functions. Only the objective can fail.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.common import harness
from benchmarks.eigenfunctions import RESULTS
from benchmarks.eigenfunctions.methods import train
from benchmarks.eigenfunctions.problems import Truth
from benchmarks.eigenfunctions.scores import GOOD, Found, aligned, rayleigh, scores
from eigenmap.networks import MLP
from eigenmap.objectives import NeuralEF, RitzLogDet, RitzTrace
from eigenmap.relations.kernel import laplacian
from eigenmap.relations.perturbation import lifted, truncated

SIZES = (16, 64, 256)
RATE = 0.004
POINTS, FEATURES, WIDTH, STEPS = 512, 384, 320, 300
FILE = "perturbation.json"


@dataclass(frozen=True)
class Variant:
    """An objective, and the perturbation of its kernel: (matrix, k-th eigenvalue) -> matrix."""

    title: str
    objective: Callable[[], nn.Module]
    perturb: Callable[[Tensor, float], Tensor] = lambda gram, mu_k: gram


VARIANTS: dict[str, Variant] = {
    "plain-10": Variant("paper's objective, alpha 10", lambda: NeuralEF(alpha=10.0)),
    "plain-100": Variant("paper's objective, alpha 100", lambda: NeuralEF(alpha=100.0)),
    "shift-0.5": Variant("shift c = 0.5, alpha 1", lambda: NeuralEF(alpha=1.0, shift=0.5)),
    "shift-0.1": Variant("shift c = 0.1, alpha 5", lambda: NeuralEF(alpha=5.0, shift=0.1)),
    "lifted": Variant("lifted, tau = mu_k, alpha 1", lambda: NeuralEF(alpha=1.0), lifted),
    "truncated": Variant("truncated below mu_k, alpha 10", lambda: NeuralEF(alpha=10.0), truncated),
    "ratio": Variant("no perturbation, R_ii form", lambda: NeuralEF(alpha=1.0, ratio=True, small=1e-9)),
    "trace": Variant("no perturbation, trace", lambda: RitzTrace(ridge=1e-8, centre=False)),
    "logdet": Variant("no perturbation, log-det", lambda: RitzLogDet(tau=1e-4, ridge=1e-8, centre=False)),
}


def grid() -> tuple[Tensor, Tensor]:
    """The points and the kernel between them."""
    x = 4 * (torch.arange(POINTS, dtype=torch.float64)[:, None] + 0.5) / POINTS - 2
    return x, laplacian(x, x)


def truth(x: Tensor, gram: Tensor, k: int) -> Truth:
    mu, vectors = torch.linalg.eigh(gram / len(x))
    weights = torch.full((len(x),), 1 / len(x), dtype=torch.float64)
    return Truth(x, weights, mu.flip(0)[:k], vectors.flip(1)[:, :k] * len(x) ** 0.5)


def fourier(x: Tensor, k: int) -> Tensor:
    """Random waves up to a quarter above the frequency of the k-th eigenfunction, about k half waves on [-2, 2]."""
    generator = torch.Generator().manual_seed(0)
    frequency = 1.25 * (k + 4) * math.pi / 4 * torch.rand(1, FEATURES, generator=generator, dtype=torch.float64)
    phase = 2 * math.pi * torch.rand(FEATURES, generator=generator, dtype=torch.float64)
    return math.sqrt(2) * torch.cos(x @ frequency + phase)


def measure(variant: Variant, k: int) -> dict[str, Any]:
    """Train once and count the modes that were found."""
    x, gram = grid()
    exact = truth(x, gram, k)
    waves = fourier(x, k)
    torch.manual_seed(0)
    network = MLP(FEATURES, k, width=WIDTH, depth=1).double()
    began = time.process_time()
    train(network, variant.objective(), waves, variant.perturb(gram, float(exact.mu[-1])), STEPS, RATE)
    seconds = time.process_time() - began
    with torch.no_grad():
        psi = network(waves)[1]
    rotation, mu = aligned(psi, gram, k)
    return {
        "seconds": seconds,
        "before": _single(Found(psi, rayleigh(psi, gram)), exact, k),
        "after": _single(Found(psi @ rotation, mu), exact, k),
    }


def _single(found: Found, exact: Truth, k: int) -> dict[str, Any]:
    """Scores mode by mode, without groups: on a grid, modes are not confused by chance."""
    result = scores(found, exact, k, same=0.0)
    alignment = result["alignment"]
    return {
        "found": sum(value >= GOOD for value in alignment),
        "leading_found": next((j for j, value in enumerate(alignment) if value < GOOD), k),
        "eigenvalue_error": max(result["eigenvalue_error"]),
        "off_diagonal": result["off_diagonal"],
    }


class Results:
    """All runs, in one file that is rewritten after each."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.runs: list[dict[str, Any]] = []
        if self.path.exists():
            self.runs = json.loads(self.path.read_text(encoding="utf-8"))["runs"]

    def of(self, name: str, k: int) -> dict[str, Any] | None:
        return next((run for run in self.runs if (run["variant"], run["k"]) == (name, k)), None)

    def add(self, run: dict[str, Any]) -> None:
        self.runs.append(run | harness.environment())
        self.runs.sort(key=lambda each: (each["k"], list(VARIANTS).index(each["variant"])))
        settings = {"points": POINTS, "features": FEATURES, "width": WIDTH, "steps": STEPS, "rate": RATE, "seed": 0}
        harness.write(self.path, {"settings": settings, "runs": self.runs})


def run_missing(results: Results, sizes: tuple[int, ...], until: float) -> None:
    for k in sizes:
        for name, variant in VARIANTS.items():
            if results.of(name, k) is not None:
                continue
            if time.monotonic() > until:
                return
            results.add({"variant": name, "title": variant.title, "k": k, **measure(variant, k)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no run after this many seconds")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="folder of results")
    words = parser.parse_args()
    torch.set_num_threads(1)
    results = Results(words.folder)
    run_missing(results, SIZES, time.monotonic() + words.seconds)
    for run in results.runs:
        before, after = run["before"], run["after"]
        print(
            f"k = {run['k']:3d} {run['title']:34} modes >= {GOOD}: {before['found']:3d}, aligned {after['found']:3d} "
            f"(leading run {before['leading_found']}, {after['leading_found']}), {run['seconds']:.0f} s"
        )


if __name__ == "__main__":
    main()
