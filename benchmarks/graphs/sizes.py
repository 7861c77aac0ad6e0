"""Width and depth of the network: what held-out edges say, and what validation labels say, without test nodes.

    python -m benchmarks.graphs.sizes sweep --data FOLDER --results FOLDER --seconds 560 --workers 14
    python -m benchmarks.graphs.sizes table --results FOLDER

A smaller network is cheaper at inference. Each run is the library's default fit of the whole graph at one size, or one
as short as those by which the library chooses the size. It records the agreement of the two ends of held-out edges,
which the fit itself knows (`quality`), how well the code of one end finds that of the other (`rank`, without and with
edges), and the accuracy of a logistic probe on validation nodes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import harness
from benchmarks.common.pages import table
from benchmarks.graphs import RESULTS, pool, quality
from benchmarks.graphs.edges import ALL_SETS, SIZE, codes_with_edges
from benchmarks.graphs.tasks import load_task
from eigenmap.evaluation.nodes import Labelled, fit_probe_logistic
from eigenmap.fitting.graph import fit_graph
from eigenmap.fitting.neighbours import judge
from eigenmap.fitting.neighbours import sample_graph as sampled
from eigenmap.fitting.size import SIZES, short_steps
from eigenmap.recipes.graph import GRAPH, usual_steps
from eigenmap.relations.graph import GraphPairs, hold_out_edges
from eigenmap.relations.propagation import Propagation, Smoothing

SEEDS = (0,)


@dataclass(frozen=True)
class SizeJob:
    """One fit."""

    data: str
    width: int
    blocks: int
    seed: int
    short: bool = False

    @property
    def name(self) -> str:
        """Name of the result."""
        return f"size-{self.data}-{self.width}-{self.blocks}{'-short' * self.short}-s{self.seed}"

    @property
    def seconds(self) -> float:
        """Seconds it is likely to take, on one H200 that fourteen jobs share."""
        return (20.0 if self.short else 45.0) * SIZE.get(self.data, 0.5)


def jobs() -> Iterator[SizeJob]:
    """All runs, the longest first."""
    cases = product(ALL_SETS, SIZES, SEEDS, (False, True))
    found = [SizeJob(data, size.width, size.blocks, seed, short) for data, size, seed, short in cases]
    yield from sorted(found, key=lambda job: (job.seed, -job.seconds))


def run(job: SizeJob, folder: Path, *, device: str = "cpu", **further: Any) -> dict[str, Any]:
    """Fit and judge one size."""
    task = load_task(folder, job.data, "seen", job.seed, 1, device)
    graph = task.graph()
    size: dict[str, Any] = {"width": job.width, "blocks": job.blocks}
    if job.short:
        steps = usual_steps(GRAPH.steps, graph.walk().n_entries // 2, GRAPH.batch_size)
        size["steps"] = short_steps(steps)
    given = {"n_components": quality.N_COMPONENTS, "seed": job.seed, "device": device, "progress": False, **further}
    model = fit_graph(graph, **given, **size)
    own = model.encode(graph.x, batch_size=4096)
    walk = graph.walk()
    held_out = hold_out_edges(walk, GRAPH.held_out, seed=job.seed)
    sample = sampled(GraphPairs(walk, 2, job.seed, held_out=held_out), job.seed)
    ways = (Propagation("S2"),)
    ranks = judge(ways, Smoothing.of(sample.walk), own[sample.nodes.numpy()], sample.ends, job.seed)
    split = task.splits[0]
    accuracies = {}
    for name, codes in (("alone", torch.from_numpy(own).to(task.y.device)), ("edges", codes_with_edges(model, task))):
        parts = [Labelled(codes[nodes], task.y[nodes]) for nodes in (split.train, split.validation)]
        accuracies[name] = fit_probe_logistic(*parts).accuracy(*parts[1])
    return {
        "benchmark": "graph sizes",
        "job": asdict(job),
        "quality": model.alignment.quality,
        "rank": ranks[0]["rank"],
        "rank_with_edges": ranks[1]["rank"],
        "shared": model.training["neighbours"]["shared"],
        "chosen": model.training["neighbours"]["chosen"],
        "validation": accuracies,
        "seconds_training": model.training["seconds"],
        **harness.environment(),
    }


def listed(folder: Path) -> str:
    """A table of all results: held-out agreement and rank, and validation accuracy, by set and size."""
    lines = []
    for path in sorted(folder.glob("size-*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        job, accuracy = found["job"], found["validation"]
        cells = [found["quality"], found["rank"], found["rank_with_edges"], accuracy["alone"], accuracy["edges"]]
        size = [*(str(job[name]) for name in ("width", "blocks", "seed")), "short" if job["short"] else "default"]
        lines.append([job["data"], *size, *(f"{cell:.4f}" for cell in cells)])
    lines.sort(key=lambda line: (line[0], int(line[3]), line[4], int(line[2]), int(line[1])))
    head = [
        "set",
        "width",
        "blocks",
        "seed",
        "length",
        "agreement",
        "rank",
        "rank with edges",
        "validation",
        "with edges",
    ]
    return table(head, lines)


def main() -> None:
    """Run what is missing, or show what there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("sweep", "table"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--seconds", type=float, default=560.0)
    parser.add_argument("--workers", type=int, default=14)
    given = parser.parse_args()
    if given.verb == "table":
        print(listed(given.results))
        return
    device = given.device if given.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    tasks = [pool.Task(job.name, job, job.seconds) for job in jobs()]
    work = partial(run, folder=given.data, device=device)
    left = pool.sweep(tasks, work, given.results, seconds=given.seconds, workers=given.workers)
    print(f"{len(tasks) - len(left)} of {len(tasks)} jobs have their results")


if __name__ == "__main__":
    main()
