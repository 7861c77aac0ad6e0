"""What eigenfunctions of a kernel cost: time and memory against the number of points, beside KernelPCA and Nystroem.

    python benchmarks/kernel_cost.py                       # two CPU cores, up to 1,000,000 points in 16 dimensions
    python benchmarks/kernel_cost.py --device cuda         # streams 100 million generated points at k = 256

Every fit runs in a process of its own, whose peak memory is read when it ends. The points lie near a curved surface of
four dimensions in sixteen, with noise; the kernel is Gaussian with length scale 2. Quality is the share of the kernel's
spectrum that the k functions capture on 4,096 fresh points (`NeuralEigenmap.score`, pairs of different points), the
same measure for all methods. Transform speed is compared with Nystroem at the number of landmarks that first reaches
our quality.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eigenmap.networks import MLP
from eigenmap.objectives import RitzTrace
from eigenmap.relations.kernel import rbf
from eigenmap.relations.operator import KernelOperator
from harness import RESULTS, environment, write

DIMENSIONS, LATENT, LENGTH_SCALE = 16, 4, 2.0
LANDMARKS = (256, 512, 1024, 2048, 4096)
PEAK = {"H200": 989e12, "H100": 989e12, "A100": 312e12}
"""bf16 matrix products a second without sparsity, from the vendor's data sheets."""


def points(n: int, seed: int, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw n points near a curved surface."""
    generator = torch.Generator(device).manual_seed(seed)
    surface = torch.randn(LATENT, DIMENSIONS, generator=torch.Generator().manual_seed(7)).to(device)
    latent = torch.randn(n, LATENT, generator=generator, device=device)
    noise = torch.randn(n, DIMENSIONS, generator=generator, device=device)
    return (torch.sin(latent @ surface) + 0.1 * noise).to(dtype)


def captured(functions: Tensor, x: Tensor) -> float:
    """Share of the spectrum on x that functions with these values capture."""
    from eigenmap.estimators.report import judge

    operator = KernelOperator(x.double(), partial(rbf, length_scale=LENGTH_SCALE))
    return float(judge(lambda _: functions, operator).sum())


def rate(transform: Any, x: np.ndarray[Any, Any]) -> float:
    """Points a second, the fastest of three times."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        transform(x)
        seconds.append(time.perf_counter() - began)
    return len(x) / min(seconds)


# One fit, in a process of its own


def run(method: str, n: int, k: int, landmarks: int) -> dict[str, Any]:
    x, fresh, many = points(n, 0).numpy(), points(4096, 1), points(20_000, 2).numpy()
    began = time.perf_counter()
    if method == "eigenmap":
        from eigenmap.estimators import NeuralEigenmap

        model = NeuralEigenmap(k, kernel_params={"length_scale": LENGTH_SCALE}, random_state=0).fit(x)
        transform, extra = model.transform, {"steps": model.n_steps_, "residual": float(model.residual_.mean())}
    elif method == "kernel-pca":
        from sklearn.decomposition import KernelPCA

        model = KernelPCA(k, kernel="rbf", gamma=0.5 / LENGTH_SCALE**2, eigen_solver="arpack", random_state=0).fit(x)
        transform, extra = model.transform, {}
    else:
        transform, extra = nystroem(x[:landmarks], k), {"landmarks": min(landmarks, n)}
    seconds = time.perf_counter() - began
    codes = torch.from_numpy(np.asarray(transform(fresh.numpy()))).double()
    return {
        "method": method,
        "n": n,
        "seconds": seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "captured": captured(codes, fresh),
        "transform_points_per_s": rate(transform, many),
        **extra,
    }


def nystroem(x: np.ndarray[Any, Any], k: int) -> Any:
    """Exact Nystroem: eigenvectors of all given points, extended by the kernel."""
    from scipy.sparse.linalg import eigsh
    from sklearn.metrics.pairwise import rbf_kernel

    gamma = 0.5 / LENGTH_SCALE**2
    mu, vectors = eigsh(rbf_kernel(x, gamma=gamma) / len(x), k=k, v0=np.ones(len(x)))
    coefficients = (vectors * np.sqrt(len(x)) / (len(x) * mu))[:, ::-1]
    return lambda z: rbf_kernel(z, x, gamma=gamma) @ coefficients


def measure(method: str, n: int, k: int, landmarks: int, memory_gb: float, minutes: float) -> dict[str, Any]:
    """`run` in another process that may use so much memory and time; what stopped it, where it was stopped."""
    arguments = [sys.executable, __file__, "--one", method, "--n", str(n), "--k", str(k), "--landmarks", str(landmarks)]
    limit = int(memory_gb * 2**30)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    try:
        done = subprocess.run(
            arguments, capture_output=True, text=True, timeout=60 * minutes, preexec_fn=limited, check=False
        )
    except subprocess.TimeoutExpired:
        return {"method": method, "n": n, "failed": f"more than {minutes:g} minutes"}
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["killed"])[-1]
        return {"method": method, "n": n, "failed": reason[:200]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def on_cpu(k: int, sizes: list[int], memory_gb: float, minutes: float) -> dict[str, Any]:
    rows = []
    alive = {"eigenmap", "kernel-pca", "nystroem"}
    for n in sizes:
        for method in sorted(alive):
            row = measure(method, n, k, n, memory_gb, minutes)
            print(json.dumps(row), flush=True)
            rows.append(row)
            if "failed" in row:
                alive.discard(method)
    ours = [row for row in rows if row["method"] == "eigenmap" and "failed" not in row][-1]
    rivals = []
    for landmarks in LANDMARKS:
        row = measure("nystroem", max(sizes), k, landmarks, memory_gb, minutes)
        print(json.dumps(row), flush=True)
        rivals.append(row)
        if row.get("captured", 0) >= ours["captured"]:
            break
    return {"fits": rows, "transform": {"eigenmap": ours, "nystroem": rivals}}


# A stream on a GPU


def on_gpu(k: int, total: int, batch: int, width: int, device: str) -> dict[str, Any]:
    """Train on `total` generated points, every batch new, products in bf16 with float32 sums.

    Products counted: forward and backward of the network (six operations a weight and point), the kernel block, and
    its product with psi. Everything else (the exponential, the factorisation of C, Adam) takes time and counts nothing.
    """
    torch.set_float32_matmul_precision("high")
    network = MLP(DIMENSIONS, k, width=width).to(device)
    objective = RitzTrace(1e-4, centre=False)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    standard = points(100_000, 1, device)
    mean, scale = standard.mean(0), standard.std(0)

    def step(seed: int) -> Tensor:
        x = points(batch, seed, device)
        with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
            psi = network((x - mean) / scale)[1]
        K = rbf(x, x, LENGTH_SCALE)
        loss: Tensor = objective(psi, psi, K)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for seed in range(5):
        step(10_000_000 + seed)
    _wait(device)
    steps, began = -(-total // batch), time.perf_counter()
    losses = [step(seed) for seed in range(steps)]
    _wait(device)
    seconds = time.perf_counter() - began
    weights = sum(p.numel() for p in network.parameters() if p.ndim > 1)
    operations = steps * (6 * weights * batch + 2 * batch**2 * DIMENSIONS + 2 * 2 * batch**2 * k + 12 * batch * k**2)
    name = torch.cuda.get_device_name() if device.startswith("cuda") else "cpu"
    peak = next((value for key, value in PEAK.items() if key in name), None)
    fresh = points(4096, 1, device)
    with torch.no_grad():
        psi = network((fresh - mean) / scale)[1].double()
    basis = torch.linalg.qr(psi).Q * len(psi) ** 0.5
    return {
        "points": steps * batch,
        "k": k,
        "batch": batch,
        "width": width,
        "seconds": seconds,
        "points_per_s": steps * batch / seconds,
        "operations_per_s": operations / seconds,
        "share_of_matrix_product_peak": None if peak is None else operations / seconds / peak,
        "loss_first_last": [float(losses[0]), float(losses[-1])],
        "captured": captured(basis.cpu(), fresh.cpu()),
    }


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--k", type=int, help="functions: 32 on a CPU, 256 on a GPU")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 4_000, 16_000, 64_000, 250_000, 1_000_000])
    parser.add_argument("--memory-gb", type=float, default=2.0, help="of each fit's process")
    parser.add_argument("--minutes", type=float, default=5.0, help="of each fit")
    parser.add_argument("--points", type=int, default=100_000_000, help="streamed on a GPU")
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", choices=["eigenmap", "kernel-pca", "nystroem"], help=argparse.SUPPRESS)
    parser.add_argument("--n", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--landmarks", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(run(given.one, given.n, given.k, given.landmarks)))
        return
    if given.device == "cpu":
        result = on_cpu(given.k or 32, given.sizes, given.memory_gb, given.minutes)
    else:
        result = on_gpu(given.k or 256, given.points, given.batch, given.width, given.device)
        print(json.dumps(result, indent=1))
    protocol = {"dimensions": DIMENSIONS, "kernel": f"rbf, length scale {LENGTH_SCALE:g}", "memory_gb": given.memory_gb}
    write(
        given.json or RESULTS / f"kernel-cost-{given.device.split(':')[0]}.json",
        {"environment": environment(), "protocol": protocol, **result},
    )


if __name__ == "__main__":
    main()
