"""Choice of how to use neighbours: the pick of each criterion without labels, and the accuracy of each way.

    python -m benchmarks.graphs.neighbours run --data FOLDER --sets planetoid_cora actor --seeds 0 1 2
    python -m benchmarks.graphs.neighbours table

A fifth of the nodes (on the heterophilous graphs, the test nodes of their published split) is withheld from training,
with features and edges. After a short fit on the rest, every way to use neighbours is scored by the criteria of
`eigenmap.fitting.neighbours` and by others that were tried. Then the withheld nodes get codes with their edges, and a
logistic probe fitted to other nodes classifies them. No criterion sees a label.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.common import harness
from benchmarks.graphs import RESULTS
from benchmarks.graphs.jobs import SETS
from benchmarks.graphs.tasks import HETEROPHILOUS, Task, make_task
from eigenmap.data import load_graph
from eigenmap.evaluation.nodes import STRENGTHS, Labelled, NodeSplit, fit_probe_logistic
from eigenmap.fitting import neighbours
from eigenmap.fitting.graph import fit_graph
from eigenmap.model import Eigenmap
from eigenmap.networks import SparseRows
from eigenmap.relations.graph import GraphPairs, hold_out_edges
from eigenmap.relations.neighbour_codes import Cut
from eigenmap.relations.propagation import Propagation, Smoothing

STEPS = {
    "amazon_computers": 600,
    "coauthor_physics": 400,
    "debian_bookworm": 800,
    "actor": 400,
    "squirrel_filtered": 400,
}
"""Steps of the short fits; 300 on other sets."""
HELD_OUT = 0.1
FITTING: dict[str, Any] = {"n_components": 128, "width": 256, "held_out": HELD_OUT, "device": "cpu"}
NAMES = {**SETS, "actor": "Actor", "squirrel_filtered": "Squirrel"}
LENGTHS = (8, 128)
RESULT = RESULTS / "neighbours.json"


def measure(folder: Path, data: str, seed: int) -> dict[str, Any]:
    """One set and seed: scores and accuracy of every way, and what was chosen."""
    task = _task(folder, data, seed)
    graph = task.graph()
    settings = {**FITTING, "steps": STEPS.get(data, 300)}
    model = fit_graph(graph, seed=seed, progress=False, **settings)
    walk = graph.walk()
    pairs = GraphPairs(walk, 2, seed, held_out=hold_out_edges(walk, HELD_OUT, seed=seed))
    sample = neighbours.sample_graph(pairs, seed)
    ways = (Propagation(), *neighbours.CANDIDATES)
    smooth, kept = Smoothing.of(sample.walk), model.encode(graph.x, batch_size=4096)
    on_edges = neighbours.judge(ways[1:], smooth, kept, sample.ends, seed)
    on_nodes = _hidden_halves(model, graph.x, smooth, kept, ways, seed)
    own = model.encode(task.x, batch_size=4096)
    rows = []
    for way, score, nodes in zip(ways, on_edges, on_nodes, strict=True):
        if way.way == "none":
            y, quality = own, model.alignment.quality
        else:
            codes = neighbours.choose(_encoder(model), graph.x, pairs, model.n_components, seed, way).codes
            assert codes.alignment is not None
            y = codes.of_graph(own, task.whole, None, Cut(model.n_components, normalize=False))
            quality = codes.alignment.quality
        accuracy = _accuracies(task, torch.from_numpy(y))
        rows.append({**score, "nodes": nodes, "agreement": quality, "accuracy": accuracy})
    features = _accuracies(task, _dense(task.x))[str(LENGTHS[-1])] if data in HETEROPHILOUS else None
    about = {"held_out_edges": int(sample.ends.shape[1]), "shared": model.training["neighbours"]["shared"]}
    return {"data": data, "seed": seed, **about, "features": features, "rows": rows}


def _hidden_halves(
    model: Eigenmap, x: Any, smooth: Smoothing, own: Any, ways: Sequence[Propagation], seed: int
) -> list[float]:
    """A criterion that was tried: half of the features of a node, and its neighbours, find the other half."""
    random = np.random.default_rng(seed)
    visible, rest = (model.encode(half, batch_size=4096) for half in halves(x, seed))
    linked = np.nonzero(np.diff(smooth.walk.indptr.numpy()))[0]
    nodes = random.permutation(linked)[:1000]
    others = random.permutation(len(own))[: neighbours.OTHERS]
    partly = own.copy()
    partly[nodes] = visible[nodes]
    found = (way.apply(smooth, partly)[nodes] for way in ways)
    return [float(neighbours.reciprocal_ranks(y, rest, nodes, others).mean()) for y in found]


def halves(x: Tensor | SparseRows, seed: int) -> tuple[Tensor | SparseRows, Tensor | SparseRows]:
    """Two copies of the features, each with a random half hidden: entries of sparse rows, else the mean instead."""
    generator = torch.Generator().manual_seed(seed)
    if isinstance(x, SparseRows):
        side = torch.rand(len(x.columns), generator=generator) < 0.5
        return _entries(x, side), _entries(x, ~side)
    side = torch.rand(x.shape, generator=generator) < 0.5
    mean = x.double().mean(0)
    return torch.where(side, x.double(), mean), torch.where(side, mean, x.double())


def _entries(x: SparseRows, kept: Tensor) -> SparseRows:
    rows = torch.repeat_interleave(torch.arange(len(x)), x.offsets.diff())[kept]
    counts = torch.bincount(rows, minlength=len(x))
    values = torch.ones(len(rows)) if x.values is None else x.values[kept].float()
    return SparseRows(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), x.columns[kept], 2 * values, x.width)


def _task(folder: Path, data: str, seed: int) -> Task:
    graph = load_graph(folder / f"{data}.npz")
    official = None
    if data in HETEROPHILOUS:
        official = NodeSplit(*(graph.splits[name] for name in ("train", "validation", "test")))
    return make_task(graph, "unseen", seed, 1, official)


def _encoder(model: Eigenmap) -> neighbours.Encode:
    return lambda rows: model.encode(rows, batch_size=4096)


def _dense(x: Any) -> Tensor:
    """Principal components of the features, so that a probe of them is quick."""
    matrix = x.dense() if hasattr(x, "dense") else x.float()
    matrix = torch.nn.functional.normalize(matrix.float(), dim=1)
    left, values, _ = torch.svd_lowrank(matrix - matrix.mean(0), 256, niter=4)
    return left * values


def _accuracies(task: Task, codes: Tensor) -> dict[str, float]:
    """Accuracy of a probe on the withheld nodes, by length of the code."""
    split, known = task.splits[0], task.y.long()
    train, validation = task.kept[split.train], task.kept[split.validation]
    found = {}
    for length in LENGTHS:
        x = codes if length == LENGTHS[-1] else codes[:, :length]
        probe = fit_probe_logistic(
            Labelled(x[train], known[train]), Labelled(x[validation], known[validation]), STRENGTHS[::2], 100
        )
        found[str(length)] = probe.accuracy(x[task.unseen], known[task.unseen])
    return found


def _choices(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The way that each criterion picks."""
    rows = run["rows"]
    chosen = neighbours.best_of(rows) if run["shared"] >= neighbours.SHARED else Propagation()
    ours = next(row for row in rows if _name(row) == chosen.in_words)
    return {
        "ours": ours,
        "rank alone": max(rows, key=lambda row: row["rank"]),
        "hidden halves": max(rows, key=lambda row: row["nodes"]),
        "agreement": max(rows, key=lambda row: row["agreement"]),
        "best by labels": max(rows, key=lambda row: row["accuracy"][str(LENGTHS[-1])]),
    }


def _short(row: dict[str, Any]) -> str:
    return f"{row['way']} {row['restart']:g}" if row["restart"] else str(row["way"])


def _name(row: dict[str, Any]) -> str:
    return Propagation(row["way"], row["restart"]).in_words


def table(result: dict[str, Any]) -> str:
    """Mean accuracy over seeds of what each criterion picks, in percent, and what it picked."""
    lines = []
    names = list(dict.fromkeys(run["data"] for run in result["runs"]))
    heads = ["features alone", *_choices(result["runs"][0])]
    lines += ["| graph | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    for name in names:
        runs = [run for run in result["runs"] if run["data"] == name]
        cells = [f"{_percent([run['rows'][0] for run in runs])}"]
        for head in heads[1:]:
            picked = [_choices(run)[head] for run in runs]
            cells.append(f"{_percent(picked)} ({', '.join(dict.fromkeys(map(_short, picked)))})")
        seeds = "1 seed" if len(runs) == 1 else f"{len(runs)} seeds"
        lines.append(f"| {NAMES.get(name, name)}, {seeds} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def stored_table(path: Path) -> str:
    """The table of a stored result."""
    return table({"runs": json.loads(path.read_text(encoding="utf-8"))["rows"]})


def _percent(rows: list[dict[str, Any]]) -> str:
    return f"{100 * np.mean([row['accuracy'][str(LENGTHS[-1])] for row in rows]):.1f}"


def main() -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "table"))
    parser.add_argument("--sets", nargs="+", default=["planetoid_cora"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--result", type=Path, default=RESULT)
    asked = parser.parse_args()
    protocol = {"fitting": {key: str(value) for key, value in FITTING.items()}, "steps": STEPS, "probe": "logistic"}
    runs = harness.stored_rows(asked.result, protocol) if asked.verb == "run" else []
    for seed in asked.seeds if asked.verb == "run" else []:
        for data in asked.sets:
            if any((run["data"], run["seed"]) == (data, seed) for run in runs):
                continue
            environment = harness.environment()
            runs.append({**measure(asked.data, data, seed), "environment": environment})
            about = {"protocol": protocol, "environment": environment}
            harness.write(asked.result, {**about, "rows": runs})
            print(table({"runs": runs[-1:]}), flush=True)
    if asked.verb == "table":
        print(stored_table(asked.result))


if __name__ == "__main__":
    main()
