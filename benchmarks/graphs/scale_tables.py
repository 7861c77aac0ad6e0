"""Section of docs/graph-benchmarks.md on a graph of OGBN-Products' size, from the results of `scale.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.common.pages import NONE, NOT_RUN, made_by, table
from benchmarks.graphs.scale_cost import ROWS

FILE = "graphs-scale.json"
GOAL = 20
Result = dict[str, Any]
CONTESTANTS = {
    "edges": "edges, our objective and optimizer",
    "node blocks, paper": "node blocks, objective and optimizer of the paper",
    "node blocks, ours": "node blocks, our objective and optimizer",
}


def scale(folder: Path) -> Iterator[str]:
    """Yield the section on the large graph, from the results in `folder`."""
    yield "## A graph of OGBN-Products' size"
    path = folder / FILE
    if not path.is_file():
        yield f"{NOT_RUN.capitalize()} (`python -m benchmarks graphs run graphs-scale`)."
        return
    result: Result = json.loads(path.read_text(encoding="utf-8"))
    graph, more = result["graph"], result.get("graph of more edges", {})
    yield (
        f"A synthetic graph of {graph['nodes']:,} nodes and {graph['edges']:,} edges (degree-corrected blocks, 47 "
        f"classes, homophily {graph['homophily']:.2f}), made on the GPU in {graph['seconds']:.1f} s. An MLP on "
        f"features scores {100 * result['MLP']['accuracy']:.1f} % on it, a GCN "
        f"{100 * result['GCN']['accuracy']:.1f} %. {made_by([result])}"
    )
    yield "### To a given accuracy"
    yield (
        "The same residual perceptron (width 512, 5 blocks) is trained in three ways. Accuracy is that of a linear "
        "discriminant on the encoder's output at growing numbers of steps. Evaluations are rows that went through the "
        "network. A block's rows without an edge do not, but they have to be drawn."
    )
    yield _race(result)
    yield from _target(result)
    yield "### Ten times the edges"
    cost = result["cost_of_edges"]
    rows = [
        [f"{each['edges']:,}", f"{1e6 * each['step_seconds_an_edge']:.2f}", f"{1e6 * each['draw_seconds_an_edge']:.3f}"]
        for each in cost.values()
    ]
    yield table(["edges", "µs per edge of a training step", "µs to draw it"], rows)
    if more:
        yield f"The larger graph was made in {more['seconds']:.1f} s with {more['peak_gb'] or 0:.0f} GB at most."
    yield "### Test cost"
    yield from _test_cost(result["test_cost_seconds"])


def _race(result: Result) -> str:
    rows = []
    for name, label in CONTESTANTS.items():
        run = result["runs"].get(name)
        if run is None:
            rows.append([label, *[NOT_RUN] * 6])
            continue
        memory = NONE if run["peak_gb"] is None else f"{run['peak_gb']:.1f}"
        figures = [f"{run['steps']:,}", f"{run['evaluations']:,}", f"{run['curve'][-1]['rows_drawn']:,}"]
        best = f"{100 * run['best_accuracy']:.1f}"
        rows.append([label, *figures, f"{run['seconds'] / 60:.1f}", memory, best])
    return table(["contestant", "steps", "evaluations", "rows drawn", "minutes", "GB at most", "best accuracy"], rows)


def _target(result: Result) -> Iterator[str]:
    """Compare the best accuracy of the paper's blocks with the time at which the others reach it."""
    reached, target = result["to_target"], result["target"]
    paper = reached["node blocks, paper"]
    untrained = result["runs"]["edges"]["untrained_accuracy"]
    lines = [f"To {100 * target:.1f} %, the best that the paper's blocks reach in their share of the time:"]
    for name, label in CONTESTANTS.items():
        found = reached.get(name)
        if found is None:
            lines.append(f"- {label}: not reached")
            continue
        before = [each for each in result["runs"][name]["curve"] if each["steps"] < found["steps"]]
        since = f"after {before[-1]['evaluations']:,} and " if before else ""
        share = f"{paper['evaluations'] / found['evaluations']:.1f} times fewer evaluations than the paper's"
        drawn = f"{paper['rows_drawn'] / found['rows_drawn']:.0f} times fewer rows drawn"
        took = f"{found['seconds']:.1f} s"
        further = "" if name == "node blocks, paper" else f"; {share}, {drawn}"
        lines.append(f"- {label}: {since}at most {found['evaluations']:,} evaluations, {took}{further}")
    yield "\n".join(lines)
    yield (
        f"{_verdict(result)} The same network without any training scores {100 * untrained:.1f} %"
        + (", which the paper's blocks do not reach again in that time." if target < untrained else ".")
    )
    ours, blocks = (_furthest(result, name) for name in ("edges", "node blocks, ours"))
    if ours and blocks:
        yield (
            f"The third row separates two causes. Blocks with our objective and optimizer reach at best "
            f"{100 * blocks['accuracy']:.1f} %, for which they need {blocks['evaluations']:,} evaluations and "
            f"{blocks['seconds']:.1f} s. Edges need {ours['evaluations']:,} and {ours['seconds']:.1f} s. So the "
            f"sampler accounts for a factor of {blocks['evaluations'] / ours['evaluations']:.1f} in evaluations and "
            f"{blocks['seconds'] / ours['seconds']:.1f} in time. The rest is due to objective and optimizer."
        )


def _verdict(result: Result) -> str:
    """State whether the goal is met; accuracy was checked at intervals, so the true factor lies between two numbers."""
    goal = f"The goal is {GOAL} times fewer evaluations"
    ours, paper = (result["to_target"].get(name) for name in ("edges", "node blocks, paper"))
    if ours is None:
        return f"{goal}: missed, edges do not reach that accuracy."
    factor = paper["evaluations"] / ours["evaluations"]
    before = {name: _before(result, name) for name in ("edges", "node blocks, paper")}
    least = before["node blocks, paper"] / ours["evaluations"]
    most = f"{paper['evaluations'] / before['edges']:.1f}" if before["edges"] else "any number"
    met = "met" if factor >= GOAL else "just missed" if factor >= 0.95 * GOAL else "missed"
    return (
        f"{goal}: {met}, {factor:.1f} times, counted to the first check at or above that accuracy. Accuracy is checked "
        f"now and then, so the true factor lies anywhere from {least:.1f} to {most}."
    )


def _before(result: Result, name: str) -> int:
    """Return the evaluations at the last check before the target was reached."""
    steps = result["to_target"][name]["steps"]
    return max((look["evaluations"] for look in result["runs"][name]["curve"] if look["steps"] < steps), default=0)


def _furthest(result: Result, name: str) -> Result | None:
    """Return the point at which a run first reached the best accuracy of node blocks with our objective."""
    runs = result["runs"]
    if name not in runs or "node blocks, ours" not in runs:
        return None
    target = runs["node blocks, ours"]["best_accuracy"]
    return next((each for each in runs[name]["curve"] if each["accuracy"] >= target), None)


def _test_cost(costs: Result) -> Iterator[str]:
    yield (
        f"From features (and, for the GCN of width 128, the graph) to class scores, {costs['test_nodes']:,} test "
        "nodes, same GPU, same run. Ours is the residual perceptron of width 512 with 5 blocks, the paper's "
        "depth at a quarter of its width. The library's usual size for such a graph, where it does not choose one, has "
        "width 1,024 and 1 block."
    )
    rows = []
    for name in ROWS:
        if name not in costs:
            rows.append([name, *[NOT_RUN] * 4])
            continue
        cost = costs[name]
        host = cost.get("one, on the CPU")
        rows.append(
            [
                name,
                f"{cost['all']:.3f}",
                f"{1e6 * cost['a node of all']:.3f}",
                f"{1e3 * cost['one']:.2f}",
                NONE if host is None else f"{1e3 * host:.2f}",
            ]
        )
    yield table(["method", "all, s", "a node of all, µs", "one node, ms", "one node on the CPU, ms"], rows)
