"""Cost of classifying nodes of a large graph: from features alone, and by a GCN, on one GPU in one run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.common.timing import mean_seconds
from benchmarks.graphs.scale_rivals import GCN
from benchmarks.graphs.synthetic import CLASSES, FEATURES, Data
from eigenmap.networks import ResidualMLP
from eigenmap.recipes.graph import USUAL_BLOCKS, WIDE

ROWS = ("ours", "ours, the library's default", "GCN, full batch", "GCN, 10 + 10 neighbours")


@torch.no_grad()
def test_cost(data: Data, width: int, gcn: GCN, S: Tensor, repeat: int = 20) -> dict[str, Any]:
    """Seconds from features (and, for the GCN, the graph) to class scores; weights need no training for that.

    `ours` has the paper's 5 blocks, of this width (the paper's is 2,048); the library's default has one of 1,024.
    """
    torch.manual_seed(0)
    device, test = data.x.device, data.test
    ours = {
        "ours": _classifier(ResidualMLP(FEATURES, width)).to(device),
        "ours, the library's default": _classifier(ResidualMLP(FEATURES, WIDE, USUAL_BLOCKS)).to(device),
    }

    def by_features(network: nn.Module, nodes: Tensor) -> None:
        for part in nodes.split(65_536):
            network(data.x[part])

    def by_neighbours(nodes: Tensor) -> None:
        for part in nodes.split(8192):
            gcn.sampled(data.x, data.walk, part)

    def seconds(work: Callable[[], object], times: int) -> float:
        return mean_seconds(lambda _: work(), device, times)

    one = test[:1]
    found: dict[str, Any] = {"test_nodes": len(test)}
    for name, network in ours.items():
        work = lambda nodes, network=network: by_features(network, nodes)  # noqa: E731
        found[name] = {
            "all": seconds(lambda work=work: work(test), 1),
            "one": seconds(lambda work=work: work(one), repeat),
        }
    whole = seconds(lambda: gcn(data.x, S), 3)
    found["GCN, full batch"] = {"all": whole, "one": whole}
    found["GCN, 10 + 10 neighbours"] = {
        "all": seconds(lambda: by_neighbours(test), 1),
        "one": seconds(lambda: by_neighbours(one), repeat),
    }
    for row in ROWS:
        found[row]["a node of all"] = found[row]["all"] / len(test)
    # One node on the CPU: the GCN needs the whole graph and all features there.
    x, walk, node, gcn = data.x.cpu(), data.walk.to("cpu"), one.cpu(), copy.deepcopy(gcn).cpu()
    for name, network in ours.items():
        host = network.cpu()
        found[name]["one, on the CPU"] = _host_seconds(lambda host=host: host(x[node]), repeat)
    found["GCN, 10 + 10 neighbours"]["one, on the CPU"] = _host_seconds(lambda: gcn.sampled(x, walk, node), repeat)
    return found


def _classifier(encoder: ResidualMLP) -> nn.Module:
    return nn.Sequential(encoder, nn.Linear(encoder.out_features, CLASSES)).eval()


def _host_seconds(work: Callable[[], object], times: int) -> float:
    return mean_seconds(lambda _: work(), "cpu", times, warmup=3)


def cost_lines(costs: Mapping[str, Any]) -> str:
    """The figures in words."""
    lines = [f"test cost, {costs['test_nodes']:,} nodes:"]
    for name in ROWS:
        row = costs[name]
        cpu = f", one on the CPU {1e3 * row['one, on the CPU']:.2f} ms" if "one, on the CPU" in row else ""
        lines.append(f"  {name}: all {row['all']:.3f} s, one alone {1e3 * row['one']:.2f} ms{cpu}")
    return "\n".join(lines)
