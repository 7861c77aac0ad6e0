"""Fits and codes of graphs of growing size: do time and memory grow linearly with the number of edges?

    python -m benchmarks.graphs.growth --edges 1e6 3e6 1e7 3e7 --folder SCRATCH --json FILE
    python -m benchmarks.graphs.growth --embed --edges 1e7 3e7 1e8 --folder SCRATCH --json FILE

For each size a file of random edges between n = edges / 20 nodes with 32 features is written, and a process of its own
fits it with the library's defaults, but few steps, since the length of training does not depend on the graph. Recorded
are CPU seconds and seconds by the clock of everything, and those of training alone; the largest resident memory; and
how many times `reading` reported how far it was. Slopes are those of the logarithms: 1 is linear growth.

With `--embed` each graph is a folder that is mapped into memory, as docs/graphs.md advises, and a process of its own
writes the codes of all nodes, averaged over neighbours, to a folder.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import harness
from benchmarks.common.pages import made_by, table
from benchmarks.common.timing import status_bytes
from benchmarks.graphs import RESULTS

DEGREE, FEATURES, STEPS = 40, 32, 100
"""Mean number of neighbours of a node, its features, and steps of training."""
FILE, EMBEDDED = "graph-growth.json", "graph-growth-embedded.json"
EDGES_OF_MODEL = 100_000
"""Edges of the graph that the model of `--embed` learns from."""
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


def prepare(place: Path, edges: int) -> None:
    """Write a graph as a folder, and a model that averages codes over neighbours, into an empty folder."""
    from eigenmap.data import load_graph, save_graph
    from eigenmap.fitting.graph import fit_graph

    place.mkdir()
    for name, size in (("small", EDGES_OF_MODEL), ("graph", edges)):
        file = place / f"{name}.npz"
        write_graph(file, size)
        save_graph(load_graph(file), place / name)
        file.unlink()
    how: dict[str, Any] = {"neighbours": "pagerank", "device": "cpu", "progress": False}
    fit_graph(place / "small", 32, steps=STEPS, width=64, **how).save(place / "model")


def embed(place: Path, device: str) -> dict[str, Any]:
    """Write the codes of the graph in this process, and say what it took."""
    from eigenmap.data import load_graph
    from eigenmap.embedding.nodes import embed_nodes
    from eigenmap.model import Eigenmap

    model = Eigenmap.load(place / "model")
    before = status_bytes("VmHWM")
    began, cpu = time.perf_counter(), time.process_time()
    graph = load_graph(place / "graph")
    walk = graph.walk()
    embed_nodes(model, graph.x, walk, place / "codes", device=None if device == "auto" else device)
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "peak_gb": status_bytes("VmHWM") / 1e9,
        "before_gb": before / 1e9,
        "files_gb": sum(path.stat().st_size for path in (place / "codes").iterdir()) / 1e9,
        "edges": walk.n_entries // 2,
        "nodes": len(graph),
        "way": model.neighbours.propagation.in_words,
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
    yield from _verdict(result["rows"])


def embedded(path: Path = RESULTS / EMBEDDED) -> Iterator[str]:
    """Yield what codes of growing graphs take, from a result."""
    if not path.is_file():
        return
    result = json.loads(path.read_text(encoding="utf-8"))
    yield (
        "Codes of all nodes of such graphs, averaged over neighbours and written to a folder; the graph is mapped into "
        f"memory. Way: {result['rows'][0]['way']}, ten steps. As many columns are averaged together as fit into 1 GB, "
        "so a graph of very many nodes is read several times. *Memory* includes the pages of mapped files. "
        f"{made_by([result])}"
    )
    names = ("seconds", "cpu_seconds", "peak_gb", "files_gb")
    rows = [
        [*(f"{row[name]:,}" for name in ("edges", "nodes")), *(f"{row[name]:.2f}" for name in names)]
        for row in result["rows"]
    ]
    yield table(["edges", "nodes", "seconds", "CPU seconds", "memory, GB", "files written, GB"], rows)
    yield from _verdict(result["rows"])


class Growth(NamedTuple):
    """The most edges of a graph, and time and memory as powers of the number of edges."""

    most: int
    powers: Mapping[str, Mapping[str, float]]

    @property
    def linear(self) -> bool:
        """Whether time and memory grow at most linearly."""
        return all(power <= LINEAR for powers in self.powers.values() for power in powers.values())


def growth_of(path: Path) -> Growth | None:
    """Return the growth of a result; None without one, or with too few sizes."""
    return _growth(json.loads(path.read_text(encoding="utf-8"))["rows"]) if path.is_file() else None


def _growth(rows: list[dict[str, Any]]) -> Growth | None:
    columns = {"CPU seconds": ("cpu_seconds", ""), "memory beyond that of the libraries": ("peak_gb", "before_gb")}
    parts = {"from the smallest to the largest": rows, "between the two largest": rows[-2:]}
    powers = {
        where: {name: power for name, how in columns.items() if (power := slope(some, *how)) is not None}
        for where, some in parts.items()
    }
    return Growth(rows[-1]["edges"], powers) if all(powers.values()) else None


def _verdict(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Say whether time and memory grow linearly."""
    found = _growth(rows)
    if found is None:
        return
    said = "; ".join(
        f"{where} {', '.join(f'{name} {power:.2f}' for name, power in powers.items())}"
        for where, powers in found.powers.items()
    )
    yield (
        f"- Time and memory grow at most linearly: {'yes' if found.linear else 'missed'} (as a power of the number of "
        f"edges: {said}; at most {LINEAR:g} counts as linear)."
    )


def main() -> None:
    """Fit every size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=float, nargs="+", default=[1e6, 3e6, 1e7])
    parser.add_argument("--folder", type=Path, required=True, help="for the files of the graphs, which are removed")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--embed", action="store_true", help="write codes with neighbours, instead of fits")
    parser.add_argument("--one", type=Path, help="fit or embed this one, print the figures and stop")
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps((embed if given.embed else fit)(given.one, given.device)))
        return
    rows = []
    given.folder.mkdir(parents=True, exist_ok=True)
    for edges in sorted(map(int, given.edges)):
        path = given.folder / (f"growth-{edges}" if given.embed else f"growth-{edges}.npz")
        (prepare if given.embed else write_graph)(path, edges)
        words = [sys.executable, "-m", "benchmarks.graphs.growth", "--folder", str(given.folder)]
        words += ["--one", str(path), "--device", given.device, *(["--embed"] if given.embed else [])]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
        shutil.rmtree(path) if given.embed else path.unlink()
        if done.returncode:
            print(f"{edges:,} edges: failed with {done.returncode}", flush=True)
            continue
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
        columns = {"cpu_seconds": "", "peak_gb": "before_gb"}
        slopes = {name: slope(rows, name, less) for name, less in columns.items()}
        if not given.embed:
            slopes["seconds_without_training"] = slope(rows, "seconds", "training_seconds")
        if given.json is not None:
            protocol = f"random graph, {DEGREE} neighbours a node, {FEATURES} features, {STEPS} steps"
            harness.write(given.json, {"protocol": protocol, "rows": rows, "slopes": slopes, **harness.environment()})
    if rows:
        print(slopes)


if __name__ == "__main__":
    main()
