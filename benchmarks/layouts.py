"""One trunk or separate networks: a small ablation of the two layouts of `eigenmap.networks.MLP` on kernels.

    python benchmarks/layouts.py

Gaussian kernel on [-2, 2], 400 points. Both layouts are trained by the same objective for the same number of steps, all
points in every step, and have about the same number of weights. Overlaps with exact Nystroem on the same points, at
fresh points: of the network's own outputs after Rayleigh-Ritz (that is what the layout can do), and of the estimator,
whose last layer sees the hidden layer of a shared trunk and the outputs of separate networks.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from eigenmap.estimators import NeuralEigenmap
from eigenmap.estimators.ritz import rayleigh_ritz
from eigenmap.relations.kernel import rbf
from eigenmap.relations.operator import KernelOperator
from harness import RESULTS, environment, write

POINTS, STEPS, SEEDS = 400, 300, (0, 1, 2)
WIDTHS = {"shared": 96, "separate": 24}  # about 10,000 weights each at k = 16


def overlaps(found: Tensor, expected: Tensor) -> Tensor:
    found, expected = found / found.norm(dim=0), expected / expected.norm(dim=0)
    return (found * expected).sum(0).abs()


def measure(layout: str, length_scale: float, k: int, seed: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    x, fresh = (4 * torch.rand(n, 1, generator=generator, dtype=torch.float64) - 2 for n in (POINTS, 2000))
    mu, vectors = torch.linalg.eigh(rbf(x, x, length_scale) / POINTS)
    mu, vectors = mu.flip(0)[:k], vectors.flip(1)[:, :k]
    nystroem = rbf(fresh, x, length_scale) @ vectors / mu
    model = NeuralEigenmap(
        k,
        kernel_params={"length_scale": length_scale},
        objective="ritz-logdet",
        objective_params={"tau": 1e-4, "ridge": 1e-8},
        network=layout,
        network_params={"width": WIDTHS[layout]},
        max_steps=STEPS,
        random_state=seed,
    )
    began = time.process_time()
    model.fit(x.numpy())
    seconds = time.process_time() - began
    operator = KernelOperator(x, lambda a, b: rbf(a, b, length_scale))
    _, rotation, _ = rayleigh_ritz(torch.from_numpy(model.psi(x.numpy())), operator)
    own = torch.from_numpy(model.psi(fresh.numpy())) @ rotation[:, :k]
    aligned = torch.from_numpy(model.transform(fresh.numpy()))
    return {
        "layout": layout,
        "length_scale": length_scale,
        "k": k,
        "seed": seed,
        "weights": sum(parameter.numel() for parameter in model.network_.parameters()),
        "processor_seconds": seconds,
        "worst_overlap_outputs": float(overlaps(own, nystroem[:, : own.shape[1]]).min()) if own.shape[1] == k else 0.0,
        "worst_overlap_estimator": float(overlaps(aligned, nystroem).min()),
    }


def main() -> None:
    rows = []
    for length_scale, k in ((1.0, 10), (0.3, 16)):
        for layout in WIDTHS:
            for seed in SEEDS:
                rows.append(measure(layout, length_scale, k, seed))
                print(rows[-1], flush=True)
    protocol = {"points": POINTS, "steps": STEPS, "objective": "ritz-logdet, tau 1e-4", "kernel": "rbf on [-2, 2]"}
    write(RESULTS / "layouts.json", {"environment": environment(), "protocol": protocol, "runs": rows})


if __name__ == "__main__":
    main()
