"""Cost of classifying nodes: ours from features alone, GCN from the graph, on the same device in the same run.

Three figures per method: all test nodes at once, a node's share of that, and one node by itself (the median of many).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import harness
from benchmarks.common.timing import median_seconds
from benchmarks.graphs.jobs import BASE, DENSE, FURTHER, SETS
from benchmarks.graphs.rivals import gcn
from benchmarks.graphs.rivals.features import rows, widths
from benchmarks.graphs.rivals.propagation import gcn_operator
from benchmarks.graphs.tasks import Task, load_task
from eigenmap.model import NodeEncoderSpec, NodeInput

FANOUT = 10
SINGLES = 100
"""Number of nodes classified one by one."""


def measure(data: Path, name: str, device: str) -> dict[str, Any]:
    """Measure the cost of inference; weights are random, which does not affect it."""
    task = load_task(data, name, "seen", 0, 1, device)
    wider = [relation["width"] for relation in FURTHER.values() if "width" in relation]
    sizes = [BASE["width"], *(wider if name in DENSE else [])]
    timings = [*costs(task, device, sizes)]
    if device != "cpu":  # the latency of one node on a CPU matters on its own
        timings += costs(load_task(data, name, "seen", 0, 1, "cpu"), "cpu", sizes)
    return {
        "benchmark": "graph cost",
        "data": name,
        "test_nodes": len(task.splits[0].test),
        "edges": int(task.whole.nnz // 2),
        "timings": timings,
        **harness.environment(),
    }


def costs(task: Task, device: str, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Seconds of every method on one device, of ours at each of these widths."""
    test = task.splits[0].test
    how = gcn.Settings()
    x = (task.x,)
    torch.manual_seed(0)
    net = gcn.GCN(widths(x), task.n_classes, how).to(device).eval()
    operator = gcn_operator(task.whole, device)
    sampler = gcn.Neighbourhoods(task.whole, FANOUT)
    everything = gcn.Neighbourhoods(task.whole, 10**9)

    def ours(width: int) -> Callable[[Tensor], Tensor]:
        encoder = NodeEncoderSpec(width, BASE["blocks"]).build(NodeInput(task.x.shape[1]))
        classify = torch.nn.Sequential(encoder, torch.nn.Linear(width, task.n_classes)).to(device).eval()
        return lambda nodes: torch.cat([classify(rows(x, some)[0]) for some in torch.split(nodes, 8192)])

    def whole_graph(nodes: Tensor) -> Tensor:
        return net(x, operator)[nodes]

    def sampled(nodes: Tensor) -> Tensor:
        return torch.cat([gcn.sampled_scores(net, x, sampler, some) for some in torch.split(nodes, 1024)])

    def exact_neighbourhood(nodes: Tensor) -> Tensor:
        return gcn.sampled_scores(net, x, everything, nodes)

    methods: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
        **{f"ours, features only, width {width:,}": (ours(width),) * 2 for width in sizes},
        "GCN, whole graph; one node: its exact neighbourhood": (whole_graph, exact_neighbourhood),
        f"GCN, {FANOUT} sampled neighbours a layer": (sampled, sampled),
    }
    made, singles = [], torch.split(test[:SINGLES], 1)
    with torch.inference_mode():
        for name, (many, single) in methods.items():
            total = median_seconds(lambda many=many: many(test), device, 5)
            ones = [median_seconds(lambda one=one, single=single: single(one), device, 1) for one in singles]
            made.append(
                {
                    "method": name,
                    "device": device,
                    "all_test_nodes_s": total,
                    "per_node_s": total / len(test),
                    "one_node_s": statistics.median(ones),
                }
            )
    return made


def summary(result: dict[str, Any]) -> str:
    lines = [f"{SETS[result['data']]}: {result['test_nodes']:,} test nodes, {result['edges']:,} edges"]
    lines += [
        f"   {row['method']:55} {row['device']:5} all {row['all_test_nodes_s'] * 1e3:9.2f} ms, "
        f"per node {row['per_node_s'] * 1e6:8.3f} us, one node {row['one_node_s'] * 1e3:8.3f} ms"
        for row in result["timings"]
    ]
    return "\n".join(lines)
