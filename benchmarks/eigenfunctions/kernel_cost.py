"""Cost of eigenfunctions of a kernel: time and memory by number of points, beside KernelPCA and Nystroem.

    python -m benchmarks.eigenfunctions.kernel_cost                        # two CPU cores, up to 1,000,000 points
    python -m benchmarks.eigenfunctions.kernel_cost --device cuda         # streams 100 million points at k = 256
    python -m benchmarks.eigenfunctions.kernel_cost --device cuda --smoke # the same with two million

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
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common.harness import environment, write
from benchmarks.common.timing import peak_mb
from benchmarks.eigenfunctions import RESULTS, kernel_stream
from benchmarks.eigenfunctions.kernel_stream import DIMENSIONS, LENGTH_SCALE, captured, points

LANDMARKS = (1024, 2048, 4096, 8192)


def rate(transform: Any, x: np.ndarray[Any, Any]) -> float:
    """Points per second of processor time, the fastest of three runs."""
    seconds = []
    for _ in range(3):
        began = time.process_time()
        transform(x)
        seconds.append(time.process_time() - began)
    return len(x) / min(seconds)


# One fit, in a process of its own


def run(method: str, n: int, k: int, landmarks: int) -> dict[str, Any]:
    x, fresh, many = points(n, 0).numpy(), points(4096, 1), points(20_000, 2).numpy()
    began, processor = time.perf_counter(), time.process_time()
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
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    codes = torch.from_numpy(np.asarray(transform(fresh.numpy()))).double()
    return {
        "method": method,
        "n": n,
        "seconds": seconds,
        "processor_seconds": processor,  # of all cores together, independent of other load
        "peak_mb": peak_mb(),
        "captured": captured(codes, fresh),
        "transform_points_per_processor_second": rate(transform, many),
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
    """Call `run` in another process with limited memory and time; if it was stopped, return the reason."""
    module = ["-m", "benchmarks.eigenfunctions.kernel_cost"]
    numbers = ["--n", str(n), "--k", str(k), "--landmarks", str(landmarks)]
    arguments = [sys.executable, *module, "--one", method, *numbers]
    limit = int(memory_gb * 2**30)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    try:
        done = subprocess.run(
            arguments,
            capture_output=True,
            text=True,
            timeout=60 * minutes,
            preexec_fn=limited,
            check=False,
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--k", type=int, help="functions: 32 on a CPU, 256 on a GPU")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 4_000, 16_000, 64_000, 250_000, 1_000_000])
    parser.add_argument("--memory-gb", type=float, default=2.0, help="memory limit of each fit")
    parser.add_argument("--minutes", type=float, default=15.0, help="time limit of each fit")
    stream = parser.add_argument_group("stream", "measure a stream of points made on the device, as with --device cuda")
    stream.add_argument("--stream", action="store_true", help="measure the stream on a CPU too")
    stream.add_argument("--points", type=int, default=100_000_000, help="in bf16; a fifth of them in TF32")
    stream.add_argument("--seconds", type=float, default=25.0, help="of bf16 at most; a fifth of it for TF32")
    stream.add_argument("--block", type=int, default=4096, help="points on either side of a kernel block")
    stream.add_argument("--blocks", type=int, default=16, help="blocks in a step")
    stream.add_argument("--width", type=int, default=1024)
    stream.add_argument("--eager", action="store_true", help="do not compile the kernel block")
    stream.add_argument("--smoke", action="store_true", help="2 million points: does it run?")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", choices=["eigenmap", "kernel-pca", "nystroem"], help=argparse.SUPPRESS)
    parser.add_argument("--n", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--landmarks", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(run(given.one, given.n, given.k, given.landmarks)))
        return
    if given.device == "cpu" and not given.stream:
        result = on_cpu(given.k or 32, given.sizes, given.memory_gb, given.minutes)
    else:
        total = 2_000_000 if given.smoke else given.points
        shape = {"k": given.k or 256, "block": given.block, "blocks": given.blocks, "width": given.width}
        settings = kernel_stream.Stream(total=total, seconds=given.seconds, **shape)
        result = kernel_stream.measure(settings, given.device, compile_kernel=not given.eager)
    protocol = {"dimensions": DIMENSIONS, "kernel": f"rbf, length scale {LENGTH_SCALE:g}", "memory_gb": given.memory_gb}
    write(
        given.json or RESULTS / f"kernel-cost-{given.device.split(':')[0]}.json",
        {"environment": environment(), "protocol": protocol, **result},
    )


if __name__ == "__main__":
    main()
