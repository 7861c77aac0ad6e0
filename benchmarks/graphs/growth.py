"""Fits on graphs of growing size: do time and memory grow linearly with the number of edges?

    python -m benchmarks.graphs.growth --edges 1e6 3e6 1e7 3e7 --folder SCRATCH --json FILE

For each size a file of random edges between n = edges / 20 nodes with 32 features is written, and a process of its own
fits it with the library's defaults, but few steps, since the length of training does not depend on the graph. Recorded
are CPU seconds and seconds by the clock of everything, and those of training alone; the largest resident memory; and
how many times `reading` reported how far it was. Slopes are those of the logarithms: 1 is linear growth.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import harness
from benchmarks.common.pages import made_by, table
from benchmarks.common.timing import status_bytes
from benchmarks.graphs import RESULTS

DEGREE, FEATURES, STEPS = 40, 32, 100
"""Mean number of neighbours of a node, its features, and steps of training."""
FILE = "graph-growth.json"
LINEAR = 1.1
"""Largest power of the number of edges that counts as linear."""


def write_graph(path: Path, edges: int, seed: int = 0) -> None:
    """Write a random graph."""
    random = np.random.default_rng(seed)
    nodes = 2 * edges // DEGREE
    index = random.integers(nodes, size=(2, edges), dtype=np.int32)
    np.savez(path, x=random.standard_normal((nodes, FEATURES), np.float32).astype(np.float16), edge_index=index)


def fit(path: Path, device: str) -> dict[str, Any]:
    """Fit the graph of a file in this process, and say what it took."""
    from eigenmap.fitting.graph import fit_graph

    before = status_bytes("VmHWM")
    ticks: list[int] = []
    began, cpu = time.perf_counter(), time.process_time()
    model = fit_graph(
        path, 32, steps=STEPS, width=64, device=device, progress=False, reading=lambda done, _: ticks.append(done)
    )
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "training_seconds": model.training["seconds"],
        "peak_gb": status_bytes("VmHWM") / 1e9,
        "before_gb": before / 1e9,
        "ticks": len(ticks),
        "edges": model.training["graph"]["edges"],
        "nodes": model.training["graph"]["nodes"],
    }


def slope(rows: list[dict[str, Any]], column: str, less: str = "") -> float | None:
    """Growth of a column between the smallest and the largest graph, as a power of the number of edges."""
    if len(rows) < 2:
        return None
    first, last = [row[column] - (row[less] if less else 0.0) for row in (rows[0], rows[-1])]
    if min(first, last) <= 0:
        return None
    return math.log(last / first) / math.log(rows[-1]["edges"] / rows[0]["edges"])


def section(path: Path = RESULTS / FILE) -> Iterator[str]:
    """Yield the part of docs/graph-benchmarks.md, from a result."""
    if not path.is_file():
        return
    result = json.loads(path.read_text(encoding="utf-8"))
    yield "## Fits of growing graphs"
    yield (
        f"The library's fit of random graphs from a file ({DEGREE} neighbours for each node, {FEATURES} features; "
        f"{STEPS} steps of width 64, since the length of training does not depend on the graph). *Memory* is the "
        "largest resident memory of the process, libraries included; *reports* counts how often the progress bar of "
        f"reading moved. Seconds by the clock depend on what else runs. {made_by([result])}"
    )
    rows = [
        [
            *(f"{row[name]:,}" for name in ("edges", "nodes")),
            *(f"{row[name]:.1f}" for name in ("seconds", "cpu_seconds", "training_seconds")),
            f"{row['peak_gb']:.2f}",
            f"{row['ticks']:,}",
        ]
        for row in result["rows"]
    ]
    head = ["edges", "nodes", "seconds", "CPU seconds", "of these, training", "memory, GB", "reports"]
    yield table(head, rows)
    columns = {"CPU seconds": ("cpu_seconds", ""), "memory beyond that of the libraries": ("peak_gb", "before_gb")}
    parts = {"from the smallest to the largest": result["rows"], "between the two largest": result["rows"][-2:]}
    found = {
        where: {name: power for name, how in columns.items() if (power := slope(rows, *how)) is not None}
        for where, rows in parts.items()
    }
    if all(found.values()):
        linear = all(power <= LINEAR for powers in found.values() for power in powers.values())
        said = "; ".join(
            f"{where} {', '.join(f'{name} {power:.2f}' for name, power in powers.items())}"
            for where, powers in found.items()
        )
        yield (
            f"- Time and memory grow at most linearly: {'yes' if linear else 'missed'} (as a power of the number of "
            f"edges: {said}; at most {LINEAR:g} counts as linear)."
        )


def main() -> None:
    """Fit every size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=float, nargs="+", default=[1e6, 3e6, 1e7])
    parser.add_argument("--folder", type=Path, required=True, help="for the files of the graphs, which are removed")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--fit", type=Path, help="fit this file, print the figures and stop")
    given = parser.parse_args()
    if given.fit is not None:
        print(json.dumps(fit(given.fit, given.device)))
        return
    rows = []
    given.folder.mkdir(parents=True, exist_ok=True)
    for edges in sorted(map(int, given.edges)):
        path = given.folder / f"growth-{edges}.npz"
        write_graph(path, edges)
        words = [sys.executable, "-m", "benchmarks.graphs.growth", "--folder", str(given.folder)]
        done = subprocess.run([*words, "--fit", str(path), "--device", given.device], stdout=subprocess.PIPE, text=True)
        path.unlink()
        if done.returncode:
            print(f"{edges:,} edges: failed with {done.returncode}", flush=True)
            continue
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
        slopes = {
            "cpu_seconds": slope(rows, "cpu_seconds"),
            "seconds_without_training": slope(rows, "seconds", "training_seconds"),
            "peak_gb": slope(rows, "peak_gb", "before_gb"),
        }
        if given.json is not None:
            protocol = f"random graph, {DEGREE} neighbours a node, {FEATURES} features, {STEPS} steps"
            harness.write(given.json, {"protocol": protocol, "rows": rows, "slopes": slopes, **harness.environment()})
    if rows:
        print(slopes)


if __name__ == "__main__":
    main()
