"""Millions of nodes: time of the edge sampler and of the paper's node blocks, and the cost of an embedding.

    python -m benchmarks.graphs.scale --seconds 420 --json FILE          # one GPU, a graph as large as OGBN-Products
    python -m benchmarks.graphs.scale --scale 0.005 --seconds 60         # a small one, also without a GPU

1. The graph (`graph_synthetic`), and what an MLP on features and a GCN score on it.
2. To an accuracy: three trainings of one residual perceptron, each for the same share of the time, with a probe of the
   encoder's output (linear discriminant, 8 % of the labels) at growing numbers of steps. `edges`: our default.
   `node blocks, paper`: objective, strength, optimizer and block size as published. `node blocks, ours`: the paper's
   sampler with our objective and optimizer. The rate is constant after a warm-up, so that every point is an end.
   The target is the best accuracy the paper's blocks reach in their share of the time; evaluations are rows that went
   through the network (a block's rows without an edge do not; `rows_drawn` counts them).
3. Ten times the edges: seconds per edge of a training step, and of drawing alone.
4. Test cost: features to classes, ours and the GCN's, for all test nodes and for one node at a time.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.common import harness
from benchmarks.common.learners import Stepping, stepping
from benchmarks.common.timing import Clock, mean_seconds
from benchmarks.graphs.scale_cost import cost_lines, test_cost
from benchmarks.graphs.scale_rivals import fit_gcn, fit_mlp
from benchmarks.graphs.synthetic import CLASSES, Data, Shape, generate
from eigenmap.fitting.graph import GraphTask
from eigenmap.fitting.options import RunOptions
from eigenmap.recipes.graph import PAPER_BLOCK_ALPHA, GraphRecipe

SHARES = {"rivals": 0.16, "edges": 0.15, "node blocks, paper": 0.25, "node blocks, ours": 0.1}
"""Share of the time; the rest is for making graphs, ten times the edges and test cost."""
PROBED = 50_000
"""Number of nodes on which the probe is scored."""
STEPS, WARM_UP = 1_000_000, 50
"""More steps than the time allows, at a constant rate after the first few."""


@dataclass(frozen=True)
class Setting:
    """Sizes of the training runs."""

    width: int = 512
    n_components: int = 256
    edges: int = 8192
    block: int = 16_384


def contestants(setting: Setting) -> dict[str, GraphRecipe]:
    """Samplers with their objectives and optimizers, for the same network."""
    ours = GraphRecipe(
        width=setting.width,
        blocks=5,
        feature_dropout=0.0,
        n_components=setting.n_components,
        batch_size=setting.edges,
        warmup=WARM_UP / STEPS,
        final_lr_fraction=1.0,
        clip_norm=0.0,
        held_out=0.0,
        steps=STEPS,
    )
    blocks = replace(ours, sampler="node-blocks", teleport=0.0, batch_size=setting.block)
    published = {"alpha": PAPER_BLOCK_ALPHA, "scale": 20.0}
    paper = replace(blocks, objective="neuralef-unordered", objective_options=published)
    return {
        "edges": ours,
        "node blocks, paper": replace(paper, optimizer="lars", lr=0.3, weight_decay=0.0, warmup=0.0),
        "node blocks, ours": blocks,
    }


def training_of(recipe: GraphRecipe, data: Data) -> Stepping:
    """The pipeline's problem of a recipe on the graph, to be trained step by step; features keep their scale."""
    about = {"nodes": len(data.y), "edges": data.walk.n_entries // 2}
    task = GraphTask(recipe, data.walk, data.x, words=True, about=about, digest="")
    return stepping(task, RunOptions(device="cuda" if data.x.is_cuda else "cpu"))


def points() -> Iterator[int]:
    """Yield the numbers of steps at which to probe: 20, 30, 45, ..."""
    step = 20.0
    while True:
        yield round(step)
        step *= 1.5


def race(recipe: GraphRecipe, data: Data, seconds: float) -> dict[str, Any]:
    """Train for the given seconds (probes not counted), and return the accuracy of the probe on the way."""
    clock = Clock(data.x.device)
    made = training_of(recipe, data)
    relation, nodes = made.problem.relation, made.problem.network
    untrained = probe(nodes, data)
    step, evaluations, spent = 0, 0, 0.0
    curve: list[dict[str, float]] = []
    for point in points():
        lap = Clock(data.x.device)
        while step < point and (step % 10 or spent + lap.seconds() < seconds):
            batch = relation.batch(step)
            made.learner.step(step, batch)
            evaluations += len(batch.x) + len(batch.x_plus)
            step += 1
        spent += lap.seconds()
        accuracy = probe(nodes, data)
        drawn = 2 * step * recipe.batch_size
        curve.append(
            {"steps": step, "evaluations": evaluations, "rows_drawn": drawn, "seconds": spent, "accuracy": accuracy}
        )
        if spent >= seconds:
            break
    return {
        "untrained_accuracy": untrained,
        "curve": curve,
        "steps": step,
        "best_accuracy": max(each["accuracy"] for each in curve),
        "evaluations": evaluations,
        "seconds": spent,
        "peak_gb": clock.peak_gb(),
    }


@torch.no_grad()
def probe(nodes: nn.Module, data: Data) -> float:
    """Accuracy of a linear discriminant on the encoder's output: fitted on training nodes, judged on test nodes."""
    nodes.eval()
    classify = discriminant(outputs(nodes, data.train[: 4 * PROBED]), data.y[data.train[: 4 * PROBED]])
    tested = data.test[:PROBED]
    hits = classify(outputs(nodes, tested)).argmax(1) == data.y[tested]
    nodes.train()
    return float(hits.double().mean())


@torch.no_grad()
def outputs(nodes: nn.Module, chosen: Tensor) -> Tensor:
    return torch.cat([nodes(part)[0] for part in chosen.split(65_536)])


def discriminant(features: Tensor, labels: Tensor, ridge: float = 1e-3) -> Callable[[Tensor], Tensor]:
    """Gaussian classes with one covariance S: score_c = m_c S^-1 x - m_c S^-1 m_c / 2 + log p_c, in closed form."""
    features = features.double()
    share = F.one_hot(labels, CLASSES).double()
    count = share.sum(0).clamp(min=1)
    means = (share.T @ features) / count[:, None]
    residual = features - means[labels]
    S = residual.T @ residual / len(features)
    S += (ridge * S.diagonal().mean() + 1e-12) * torch.eye(len(S)).to(S)
    weight = torch.linalg.solve(S, means.T)
    bias = (count / count.sum()).log() - (means.T * weight).sum(0) / 2
    return lambda x: x.double() @ weight + bias


def to_accuracy(runs: dict[str, Any], target: float) -> dict[str, Any]:
    """Steps, evaluations and seconds at which each run first reached the target; None where it did not."""
    return {
        name: next((each for each in run["curve"] if each["accuracy"] >= target), None) for name, run in runs.items()
    }


def edge_cost(data: Data, setting: Setting, repeat: int) -> dict[str, float]:
    """Return the seconds per edge, of a whole training step and of drawing alone."""
    made = training_of(contestants(setting)["edges"], data)
    learner, relation = made.learner, made.problem.relation

    def seconds(work: Callable[[int], object]) -> float:
        return mean_seconds(work, data.x.device, repeat, warmup=3) / setting.edges

    return {
        "step_seconds_an_edge": seconds(lambda step: learner.step(step, relation.batch(step))),
        "draw_seconds_an_edge": seconds(relation.batch),
    }


class Parts:
    """The parts of the benchmark, run one after the other: a failed one is recorded, and the next one runs.

    The result is written after each of them, so that nothing is lost if the machine goes away.
    """

    def __init__(self, arguments: argparse.Namespace, result: dict[str, Any]) -> None:
        self.arguments, self.result = arguments, result
        self.failed: dict[str, str] = {}

    def run(self, name: str, work: Callable[[], None]) -> None:
        began = time.perf_counter()
        try:
            work()
        except Exception as error:
            # A failure in one part does not affect the others.
            traceback.print_exc()
            self.failed[name] = f"{type(error).__name__}: {str(error)[:300]}"
            _say(f"FAILED {name}: {self.failed[name]}")
            self.result["failed"] = self.failed
        self.result.setdefault("seconds_of_parts", {})[name] = time.perf_counter() - began
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if self.arguments.json:
            harness.write(self.arguments.json, self.result)


def run(arguments: argparse.Namespace) -> int:
    """Run all parts; return the number of those that failed."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    setting = Setting(arguments.width, arguments.components, arguments.edges, arguments.block)
    result: dict[str, Any] = {
        "protocol": f"synthetic graph of OGBN-Products' shape at scale {arguments.scale}, seed {arguments.seed}; "
        f"residual perceptron of width {setting.width}, {setting.n_components} components",
        **harness.environment(),
    }
    parts = Parts(arguments, result)
    whole = Clock(device)
    data, result["graph"] = _made(Shape.of(arguments.scale), arguments.seed, device)
    _one_graph(parts, data, setting)
    del data
    parts.run(f"edges, {arguments.more:g}x", lambda: _more_edges(result, arguments, setting, device))
    parts.run("total", lambda: result.update(seconds=whole.seconds()))
    return len(parts.failed)


def _made(shape: Shape, seed: int, device: torch.device) -> tuple[Data, dict[str, Any]]:
    """Return a graph and a summary of it."""
    clock = Clock(device)
    data = generate(shape, seed, device)
    about = {"seconds": clock.seconds(), "peak_gb": clock.peak_gb(), "homophily": data.homophily()}
    about |= {"nodes": len(data.y), "edges": data.walk.n_entries // 2}
    _say(f"graph: {about}")
    return data, about


def _one_graph(parts: Parts, data: Data, setting: Setting) -> None:
    """Everything that is measured on the graph of the size of OGBN-Products."""
    result, arguments = parts.result, parts.arguments
    budget = {name: share * arguments.seconds for name, share in SHARES.items()}
    parts.run("MLP", lambda: _mlp(result, data, budget["rivals"] / 2))
    parts.run("GCN and test cost", lambda: _gcn(result, data, setting, budget["rivals"] / 2))
    for name in contestants(setting):
        parts.run(name, lambda name=name: _race(result, name, data, setting, budget[name]))
    parts.run("target", lambda: _target(result, arguments.target))
    parts.run("edges, 1x", lambda: _edge_cost(result, "1x", data, setting, arguments.repeat))


def _more_edges(result: dict[str, Any], arguments: argparse.Namespace, setting: Setting, device: torch.device) -> None:
    shape = Shape.of(arguments.scale, edges=arguments.more)
    data, result["graph of more edges"] = _made(shape, arguments.seed, device)
    _edge_cost(result, f"{arguments.more:g}x", data, setting, arguments.repeat)


def _mlp(result: dict[str, Any], data: Data, seconds: float) -> None:
    clock = Clock(data.x.device)
    _, accuracy = fit_mlp(data, seconds)
    result["MLP"] = {"accuracy": accuracy, "seconds": clock.seconds()}
    _say(f"MLP on features {accuracy:.3f}")


def _gcn(result: dict[str, Any], data: Data, setting: Setting, seconds: float) -> None:
    clock = Clock(data.x.device)
    gcn, S, accuracy, epochs = fit_gcn(data, seconds)
    made = {"accuracy": accuracy, "epochs": epochs, "seconds": clock.seconds(), "peak_gb": clock.peak_gb()}
    result["GCN"] = made
    _say(f"GCN {accuracy:.3f} after {epochs} epochs")
    result["test_cost_seconds"] = test_cost(data, setting.width, gcn, S)
    _say(cost_lines(result["test_cost_seconds"]))


def _race(result: dict[str, Any], name: str, data: Data, setting: Setting, seconds: float) -> None:
    made = race(contestants(setting)[name], data, seconds)
    result.setdefault("runs", {})[name] = made
    _print_run(name, made)


def _target(result: dict[str, Any], target: float | None) -> None:
    runs = result.get("runs", {})
    target = target or runs["node blocks, paper"]["best_accuracy"]
    result |= {"target": target, "to_target": to_accuracy(runs, target)}
    _print_target(target, result["to_target"])


def _edge_cost(result: dict[str, Any], name: str, data: Data, setting: Setting, repeat: int) -> None:
    clock = Clock(data.x.device)
    cost = {**edge_cost(data, setting, repeat), "edges": data.walk.n_entries // 2, "peak_gb": clock.peak_gb()}
    result.setdefault("cost_of_edges", {})[name] = cost
    _say(
        f"{name} the edges: {1e6 * cost['step_seconds_an_edge']:.2f} microseconds per edge of a step, "
        f"{1e6 * cost['draw_seconds_an_edge']:.3f} to draw it"
    )


def _say(line: str) -> None:
    print(line, flush=True)


def _print_run(name: str, run: dict[str, Any]) -> None:
    memory = "" if run["peak_gb"] is None else f", {run['peak_gb']:.1f} GB at most"
    _say(f"{name}: {run['steps']:,} steps, {run['evaluations']:,} evaluations, {run['seconds']:.1f} s{memory}")
    _say(
        f"  untrained {run['untrained_accuracy']:.3f}  "
        + "  ".join(f"{each['seconds']:.1f}s {each['accuracy']:.3f}" for each in run["curve"])
    )


def _print_target(target: float, reached: dict[str, Any]) -> None:
    _say(f"to a probe accuracy of {target:.3f}:")
    for name, each in reached.items():
        _say(
            f"  {name}: "
            + ("not reached" if each is None else f"{each['evaluations']:,.0f} evaluations, {each['seconds']:.1f} s")
        )
    ours, paper = reached.get("edges"), reached.get("node blocks, paper")
    if ours and paper:
        _say(
            f"  {paper['evaluations'] / ours['evaluations']:.1f} times fewer evaluations with edges "
            f"({paper['rows_drawn'] / ours['rows_drawn']:.1f} times, if a block's empty rows are evaluated too)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of OGBN-Products' nodes and edges")
    parser.add_argument("--more", type=float, default=10.0, help="factor of the edges in part 3")
    parser.add_argument("--seconds", type=float, default=420.0, help="approximate time limit in seconds")
    parser.add_argument("--target", type=float, help="probe accuracy to reach; by default that of the paper's blocks")
    parser.add_argument("--width", type=int, default=Setting.width)
    parser.add_argument("--components", type=int, default=Setting.n_components)
    parser.add_argument("--edges", type=int, default=Setting.edges, help="edges per step")
    parser.add_argument("--block", type=int, default=Setting.block, help="nodes on a side of a block")
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="also write the result as JSON")
    sys.exit(1 if run(parser.parse_args()) else 0)


if __name__ == "__main__":
    main()
