"""Seconds and memory of the linear fit, encoding and the neural head, compared with the time of the matrix products.

    python -m benchmarks.vectors.cost --work FOLDER --json OUT.json

Vectors are synthetic, since their values do not affect the measurements. They are on disk and memory-mapped. The limit
is the time of the products that every solution needs, x^T x, y^T y and x^T y over all rows, in blocks of the same size
and in the same precision, measured just before and after. The load of the machine is recorded: clock seconds on a busy
machine are an upper bound, so CPU seconds are given too.

"disk" fits one large file of float16 rows of norm 1, whose rows 2k and 2k + 1 belong together. It is not in the page
cache when the fit begins, and its second limit is the time to read it once in the same state.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common.timing import status_bytes
from benchmarks.vectors.rows import measured
from eigenmap import fit_vectors
from eigenmap.data.vectors.vectors import BLOCK
from eigenmap.training.config import Accelerator

FEATURES, LENGTH = 384, 64
WIDE = 768
ROWS, MANY = 1_000_000, 10_000_000
REPEATED = 32
"""Number of different blocks of a large file."""
TIMES = 10
"""Number of times that encoding, a matter of seconds, is timed; the fastest counts, as in `timeit`."""
METHODS = ("linear", "encode", "neural")


def write(file: Path, rows: int, features: int, dtype: str, seed: int) -> Path:
    """Write vectors whose first features matter more; two seeds share these."""
    rng, common = np.random.default_rng((seed, 1)), np.random.default_rng(0)
    made = np.lib.format.open_memmap(file, "w+", dtype=dtype, shape=(rows, features))
    scale = (1 + np.arange(features)) ** -0.5
    for start in range(0, rows, BLOCK):
        some = slice(start, min(rows, start + BLOCK))
        shape = (some.stop - start, features)
        noise = common.normal(size=shape).astype(np.float32) + 0.7 * rng.normal(size=shape).astype(np.float32)
        made[some] = (scale * noise).astype(dtype)
    made.flush()
    return file


def timed(work: Callable[[], object]) -> dict[str, float]:
    """Return clock seconds and CPU seconds."""
    began, cpu = time.perf_counter(), time.process_time()
    work()
    return {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}


def fastest(work: Callable[[], object]) -> dict[str, float]:
    """Return clock seconds and CPU seconds of the fastest of several times, which others disturb least."""
    return min((timed(work) for _ in range(TIMES)), key=lambda taken: taken["seconds"])


def products(rows: int, features: int) -> dict[str, float]:
    """Time the three products over all rows, extrapolated from a few blocks."""
    x, y = (torch.randn(BLOCK, features, dtype=torch.float64) for _ in range(2))
    blocks = 8

    def work() -> None:
        for _ in range(blocks):
            x.T @ x, y.T @ y, x.T @ y

    work()
    return {name: value * rows / (blocks * BLOCK) for name, value in timed(work).items()}


def linear(work: Path, rows: int, features: int, dtype: str) -> dict[str, Any]:
    """One fit from files."""
    files = [write(work / f"{side}.npy", rows, features, dtype, seed) for seed, side in enumerate("xy")]
    before, held = products(rows, features), status_bytes("RssAnon")
    taken = timed(lambda: fit_vectors(files[0], pairs=files[1], progress=False, seed=0))
    after = products(rows, features)
    limit = {name: (before[name] + after[name]) / 2 for name in before}
    return {
        "rows": rows,
        "features": features,
        "dtype": dtype,
        **taken,
        "products_seconds": limit["seconds"],
        "products_cpu_seconds": limit["cpu_seconds"],
        "share_of_products": limit["cpu_seconds"] / taken["cpu_seconds"],
        "memory_before_mb": held / 2**20,
        "peak_memory_mb": status_bytes("VmHWM") / 2**20,
    }


def write_pairs(file: Path, rows: int, features: int) -> Path:
    """Write float16 rows of norm 1, of which 2k and 2k + 1 belong together; blocks repeat after a while."""
    rng, scale = np.random.default_rng(0), (1 + np.arange(features)) ** -0.5
    blocks = []
    for _ in range(min(REPEATED, -(-rows // BLOCK))):
        both = np.repeat(rng.normal(size=(BLOCK // 2, features)), 2, axis=0)
        some = scale * (both + 0.7 * rng.normal(size=both.shape))
        blocks.append((some / np.linalg.norm(some, axis=1, keepdims=True)).astype(np.float16))
    with file.open("wb") as target:
        head = {"descr": "<f2", "fortran_order": False, "shape": (rows, features)}
        np.lib.format.write_array_header_2_0(target, head)
        for k, start in enumerate(range(0, rows, BLOCK)):
            target.write(blocks[k % len(blocks)][: rows - start].tobytes())
        target.flush()
        os.fsync(target.fileno())
    return file


def read_cold(file: Path) -> dict[str, float]:
    """Time one sequential read of a file that is not in the page cache."""
    forget(file)
    buffer = bytearray(1 << 24)

    def work() -> None:
        with file.open("rb", buffering=0) as source:
            while source.readinto(buffer):
                pass

    return timed(work)


def forget(file: Path) -> None:
    """Remove a file from the page cache."""
    with file.open("rb") as source:
        os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def disk(work: Path, rows: int, features: int) -> dict[str, Any]:
    """One fit of a file larger than the memory that it may take."""
    file = write_pairs(work / "x.npy", rows, features)
    pairs = np.arange(rows // 2 * 2).reshape(-1, 2)
    before, reading, held = products(len(pairs), features), read_cold(file), status_bytes("RssAnon")
    forget(file)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that of the fit, not of writing the file
    taken = timed(lambda: fit_vectors(file, pairs=pairs, progress=False, seed=0))
    peak = status_bytes("VmHWM")
    after = products(len(pairs), features)
    limit = {name: (before[name] + after[name]) / 2 for name in before}
    return {
        "rows": rows,
        "pairs": len(pairs),
        "features": features,
        "dtype": "float16",
        "file_bytes": file.stat().st_size,
        **taken,
        "products_seconds": limit["seconds"],
        "products_cpu_seconds": limit["cpu_seconds"],
        "share_of_products": limit["cpu_seconds"] / taken["cpu_seconds"],
        "reading_seconds": reading["seconds"],
        "share_of_disk": reading["seconds"] / taken["seconds"],
        "memory_before_mb": held / 2**20,
        "peak_memory_mb": peak / 2**20,
    }


def encode(work: Path, rows: int) -> dict[str, Any]:
    """Vectors per second to codes of `LENGTH` features, in memory."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, FEATURES)).astype(np.float32)
    model = fit_vectors(x, pairs=x + 0.3 * rng.normal(size=x.shape).astype(np.float32), progress=False)
    some = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    matrix = torch.randn(FEATURES, LENGTH)
    model.encode(some[:BLOCK], dim=LENGTH)
    taken = fastest(lambda: model.encode(some, dim=LENGTH))
    limit = fastest(lambda: [torch.from_numpy(some[k : k + BLOCK]) @ matrix for k in range(0, rows, BLOCK)])
    threads = torch.get_num_threads()
    return {
        "rows": rows,
        "features": LENGTH,
        "times": TIMES,
        **taken,
        "per_second": rows / taken["seconds"],
        "per_cpu_second": rows / taken["cpu_seconds"],
        "per_second_of_free_cores": rows * threads / taken["cpu_seconds"],
        "product_cpu_seconds": limit["cpu_seconds"],
    }


def neural(work: Path, rows: int, device: Accelerator) -> dict[str, Any]:
    """The neural head on as many pairs, every pair once; `head_seconds` are those of its training alone."""
    files = [write(work / f"{side}.npy", rows, FEATURES, "float32", seed) for seed, side in enumerate("xy")]
    options: dict[str, Any] = {"solver": "neural", "progress": False, "device": device, "batch_size": 1_024}
    steps, found = rows // 1_024, []
    taken = timed(lambda: found.append(fit_vectors(files[0], pairs=files[1], steps=steps, **options)))
    return {"rows": rows, "steps": steps, **taken, "head_seconds": found[0].training["seconds"]}


def main(words: list[str] | None = None) -> None:
    given = parser().parse_args(words)
    work = given.work / "vectors-cost"
    work.mkdir(parents=True, exist_ok=True)

    def measure(name: str) -> dict[str, Any]:
        before = os.getloadavg()[0]
        made = {
            "linear": lambda: linear(work, given.rows, FEATURES, "float32"),
            "encode": lambda: encode(work, min(given.rows, 500_000)),
            "neural": lambda: neural(work, given.rows, "cpu"),
            "neural, GPU": lambda: neural(work, given.rows, "cuda"),
            "disk": lambda: disk(work, given.many, WIDE),
        }[name]()
        load = {"load_before": before, "load": os.getloadavg()[0]}
        return {**made, "threads": torch.get_num_threads(), "cores": os.cpu_count(), **load}

    try:
        rows = given.methods.split(";") if given.methods else METHODS
        protocol = {"rows": given.many if given.methods == "disk" else given.rows}
        measured(given.json, protocol, {"seed": 0}, rows, measure)
    finally:
        shutil.rmtree(work)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--work", type=Path, required=True, help="folder for temporary vectors")
    made.add_argument("--json", type=Path, required=True, help="result to write or continue")
    made.add_argument("--rows", type=int, default=ROWS)
    made.add_argument("--many", type=int, default=MANY, help=f"rows of {WIDE} float16 numbers for the method disk")
    made.add_argument("--methods", help="names, separated by semicolons (default: those without GPU and large disk)")
    return made


if __name__ == "__main__":
    main()
