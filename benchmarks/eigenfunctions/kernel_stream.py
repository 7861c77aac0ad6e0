"""Eigenfunctions from a stream of points made on the GPU: points per second, and share of its peak throughput.

Called by `kernel_cost.py --device cuda`. A step draws `blocks` x `block` new points from a seed,
evaluates the network on all of them and the kernel inside each block, and takes one Adam step on the trace of the
Rayleigh quotient (`eigenmap.objectives.RitzTrace`) with moments over the whole step. Nothing is copied from the host,
and the host waits for the GPU only every `LOOK` steps.

Precision. "bf16": products of the network and of the kernel block with psi take bf16 factors and sum in float32.
"tf32": they take float32 factors, rounded to TF32 by the GPU. In both, distances and moments are float32 with TF32
products, and the k x k part is float64. The peak is that of the GPU's own matrix product in the same precision,
measured in the same run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.common.timing import each_seconds, mean_seconds, wait
from eigenmap.networks import MLP
from eigenmap.objectives.moments import l2_normalise
from eigenmap.objectives.ritz import ritz_quotient
from eigenmap.relations.kernel import rbf
from eigenmap.relations.operator import KernelOperator

DIMENSIONS, LATENT, LENGTH_SCALE = 16, 4, 2.0
DTYPES = {"bf16": torch.bfloat16, "tf32": torch.float32}
RIDGES = {"bf16": 1e-2, "tf32": 1e-3}
"""Ridge of the Rayleigh quotient in training, above the rounding of its products: with a smaller one, a run of 100
million points ended in nan. The alignment afterwards is in float64 and needs none."""
DATA_SHEET = {"H200": 989e12, "H100": 989e12, "A100": 312e12}
"""The vendor's figure for bf16 operations per second of dense matrix products; TF32 has half."""
WARM_UP, LOOK = 5, 50
TRANSFORMED = 2**21
"""Points that `transform` is timed on."""
Transform = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Stream:
    """Settings of a stream: at most `total` points or `seconds` seconds, in steps of `blocks` blocks of the kernel."""

    k: int = 256
    total: int = 100_000_000
    block: int = 4096
    blocks: int = 16
    width: int = 1024
    rate: float = 3e-3
    seconds: float = 25.0
    seed: int = 0

    @property
    def batch(self) -> int:
        """Points in a step."""
        return self.block * self.blocks


def points(n: int, seed: int, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw n points near a curved surface."""
    return draw(n, torch.Generator(device).manual_seed(seed), surface(device)).to(dtype)


def surface(device: str) -> Tensor:
    """The directions of the surface, the same for all seeds and devices."""
    return torch.randn(LATENT, DIMENSIONS, generator=torch.Generator().manual_seed(7)).to(device)


def draw(n: int, generator: torch.Generator, directions: Tensor) -> Tensor:
    """The next n points of a generator, on its device."""
    latent = torch.randn(n, LATENT, generator=generator, device=generator.device)
    noise = torch.randn(n, DIMENSIONS, generator=generator, device=generator.device)
    return torch.sin(latent @ directions) + 0.1 * noise


def captured(functions: Tensor, x: Tensor) -> float:
    """Share of the spectrum on x that functions with these values capture."""
    from eigenmap.kernels.report import judge

    operator = KernelOperator(x.double(), partial(rbf, length_scale=LENGTH_SCALE))
    return float(judge(lambda _: functions.double(), operator).sum())


def gaussian_blocks(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The Gaussian kernel inside each block of points: (blocks, block, d) -> (blocks, block, block)."""
    x = (x - x.mean((0, 1))) / LENGTH_SCALE
    half = 0.5 * x.square().sum(-1)
    return (x @ x.mT - half[:, :, None] - half[:, None]).clamp_max(0).exp().to(dtype)


Kernel = Callable[[Tensor, torch.dtype], Tensor]


class Training:
    """A network, its optimizer and its stream."""

    def __init__(self, stream: Stream, precision: str, device: str, kernel: Kernel = gaussian_blocks) -> None:
        self.stream, self.precision, self.device, self.kernel = stream, precision, device, kernel
        torch.manual_seed(stream.seed)
        self.network = MLP(DIMENSIONS, stream.k, width=stream.width).to(device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=stream.rate, fused=device.startswith("cuda"))
        self.generator = torch.Generator(device).manual_seed(stream.seed)
        self.directions = surface(device)
        some = points(100_000, stream.seed + 1, device)
        self.mean, self.scale = some.mean(0), some.std(0)

    def psi(self, x: Tensor) -> Tensor:
        """The network's functions, in the precision of the run; float32 out."""
        with autocast(self.precision, self.device):
            psi: Tensor = self.network((x - self.mean) / self.scale)[1]
        return psi.float()

    def step(self, done: float) -> Tensor:
        """Take one step on new points; `done` is the completed share of the training."""
        stream = self.stream
        for group in self.optimizer.param_groups:
            group["lr"] = stream.rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))))
        x = draw(stream.batch, self.generator, self.directions)
        (psi,) = l2_normalise(self.psi(x))
        loss = -ritz_quotient(*self._moments(x, psi), ridge=RIDGES[self.precision]).trace()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()

    def _moments(self, x: Tensor, psi: Tensor) -> tuple[Tensor, Tensor]:
        """C = E[psi psi^T] and R = E[psi (T psi)^T], T the operator of each block.

        T is symmetric, so the derivative of R by psi is twice that with T psi held fixed: the second product with the
        kernel, that of the backward pass, is not needed.
        """
        stream, dtype = self.stream, DTYPES[self.precision]
        with torch.no_grad():
            K = self.kernel(x.view(stream.blocks, stream.block, -1), dtype)
            T_psi = (K @ psi.to(dtype).view(stream.blocks, stream.block, -1)).flatten(0, 1).float() / stream.block
        R = psi.T @ T_psi / stream.batch
        return psi.T @ psi / stream.batch, 2 * R - R.detach()

    def operations(self) -> int:
        """Operations of the matrix products of a step; everything else takes time but is not counted.

        The network forward and backward (no gradient of the points), distances, the kernel times psi, two moments
        forward (2 k^2 each a point) and backward (4 and 2 k^2).
        """
        stream, k = self.stream, self.stream.k
        weights = sum(p.numel() for p in self.network.parameters() if p.ndim > 1)
        network = 6 * weights - 2 * DIMENSIONS * stream.width
        return stream.batch * (network + 2 * stream.block * (DIMENSIONS + k) + 10 * k * k)


def autocast(precision: str, device: str) -> AbstractContextManager[object]:
    """Return a context for products in bf16, or an empty one."""
    return torch.autocast(torch.device(device).type, dtype=torch.bfloat16) if precision == "bf16" else nullcontext()


def train(training: Training) -> dict[str, Any]:
    """Take all steps; return their cost."""
    stream, device = training.stream, training.device
    steps = -(-stream.total // stream.batch)
    for _ in range(WARM_UP):
        training.step(0.0)
    wait(device)
    began, losses = time.perf_counter(), []
    while len(losses) < steps:
        losses.append(training.step(len(losses) / steps))
        if len(losses) % LOOK == 0:
            wait(device)
            if time.perf_counter() - began > stream.seconds:
                break
    wait(device)
    seconds = time.perf_counter() - began
    return {
        "precision": training.precision,
        "points": len(losses) * stream.batch,
        "steps": len(losses),
        "seconds": seconds,
        "points_per_s": len(losses) * stream.batch / seconds,
        "operations_per_point": training.operations() / stream.batch,
        "operations_per_s": len(losses) * training.operations() / seconds,
        "loss_first_last": [float(losses[0]), float(losses[-1])],
    }


def aligned(training: Training, reference: Tensor) -> Transform:
    """The network with its last rotation solved on reference points, in float64: the functions in order."""
    from eigenmap.kernels.ritz import rayleigh_ritz

    operator = KernelOperator(reference.double(), partial(rbf, length_scale=LENGTH_SCALE))
    with torch.no_grad():
        head = rayleigh_ritz(training.psi(reference).double(), operator)[1].float()
    return lambda z: training.psi(z) @ head


def nystroem(landmarks: Tensor, k: int) -> Transform:
    """Exact Nystroem: eigenvectors of the landmarks in float64, extended by the kernel in float32."""
    x, n = landmarks.double(), len(landmarks)
    mu, vectors = torch.linalg.eigh(rbf(x, x, LENGTH_SCALE) / n)
    coefficients = (vectors * math.sqrt(n) / (n * mu.clamp_min(1e-12)))[:, -k:].flip(1).float()
    return lambda z: rbf(z, landmarks, LENGTH_SCALE) @ coefficients


def transform_rate(transform: Transform, z: Tensor, device: str, rows: int = 65536) -> float:
    """Points per second, the faster of two passes."""

    def one_pass() -> None:
        for part in torch.split(z, rows):
            transform(part)

    with torch.no_grad():
        seconds = each_seconds(one_pass, device, 2)
    return len(z) / min(seconds)


def product_peak(precision: str, device: str, size: int = 8192, seconds: float = 0.5) -> float:
    """Operations per second of the device's own product of two square matrices in this precision."""
    size = size if device.startswith("cuda") else 512
    a, b = (torch.randn(size, size, device=device, dtype=DTYPES[precision]) for _ in range(2))
    best, until = math.inf, time.perf_counter() + seconds
    while best == math.inf or time.perf_counter() < until:
        best = min(best, mean_seconds(lambda step: torch.mm(a, b), device, 10, warmup=0))
    return 2 * size**3 / best


def compiled(stream: Stream, device: str) -> tuple[Kernel, bool]:
    """Return the kernel block, compiled to one fused pass if possible, and whether it was compiled."""
    if not device.startswith("cuda"):
        return gaussian_blocks, False
    fused: Kernel = torch.compile(gaussian_blocks, dynamic=False)
    try:
        fused(torch.zeros(stream.blocks, stream.block, DIMENSIONS, device=device), torch.bfloat16)
    except Exception as error:  # the plain code computes the same without the compiler
        print(f"The kernel block is not compiled: {type(error).__name__}.", flush=True)
        return gaussian_blocks, False
    return fused, True


def measure(stream: Stream, device: str, compile_kernel: bool = True) -> dict[str, Any]:
    """Measure both precisions, bf16 over all points and TF32 over a fifth, and Nystroem on the same device."""
    torch.set_float32_matmul_precision("high")
    kernel, fused = compiled(stream, device) if compile_kernel else (gaussian_blocks, False)
    sizes = (4096, 16_384, TRANSFORMED) if device.startswith("cuda") else (512, 1024, 4096)
    fresh, reference, many = (points(n, 1000 + i, device) for i, n in enumerate(sizes))
    rows, transforms = [], []
    for precision, share in (("bf16", 1.0), ("tf32", 0.2)):
        part = Stream(**{**vars(stream), "total": math.ceil(share * stream.total), "seconds": share * stream.seconds})
        training = Training(part, precision, device, kernel)
        row, peak = train(training), product_peak(precision, device)
        sheet = _data_sheet(precision, device)
        with torch.no_grad():
            functions = aligned(training, reference)
            row["captured"] = captured(functions(fresh), fresh)
        rate = transform_rate(functions, many, device)
        transforms.append({"method": f"eigenmap, {precision}", "points_per_s": rate, "captured": row["captured"]})
        row |= {"product_peak": peak, "share_of_matrix_product_peak": row["operations_per_s"] / peak}
        row |= {"data_sheet_peak": sheet, "share_of_data_sheet": sheet and row["operations_per_s"] / sheet}
        rows.append(row)
        _say(row)
    return {
        "stream": vars(stream) | {"kernel_fused": fused},
        "streams": rows,
        "transform": [*transforms, *_nystroem_rows(stream.k, fresh, many, device)],
        "peak_memory_gb": torch.cuda.max_memory_allocated() / 2**30 if device.startswith("cuda") else None,
    }


def _nystroem_rows(k: int, fresh: Tensor, many: Tensor, device: str) -> list[dict[str, Any]]:
    landmarks = points(len(fresh), 2000, device)
    transform, rows = nystroem(landmarks, k), []
    for name, precision in (("tf32", "high"), ("float32", "highest")):
        torch.set_float32_matmul_precision(precision)
        share, rate = captured(transform(fresh), fresh), transform_rate(transform, many, device)
        title = f"Nystroem, {len(landmarks)} landmarks, {name}"
        rows.append({"method": title, "points_per_s": rate, "captured": share})
        print(f"{title}: transform {rate:.3g} points/s, captured {share:.4f}", flush=True)
    return rows


def _data_sheet(precision: str, device: str) -> float | None:
    name = torch.cuda.get_device_name() if device.startswith("cuda") else ""
    peak = next((value for card, value in DATA_SHEET.items() if card in name), None)
    return peak and peak / (2 if precision == "tf32" else 1)


def _say(row: dict[str, Any]) -> None:
    print(
        f"{row['precision']}: {row['points']:,} points in {row['seconds']:.1f} s, {row['points_per_s']:.4g} points/s, "
        f"{row['operations_per_s'] / 1e12:.4g} TFLOP/s of products = {row['share_of_matrix_product_peak']:.1%} of the "
        f"GPU's own {row['product_peak'] / 1e12:.4g}; captured {row['captured']:.4f}",
        flush=True,
    )
