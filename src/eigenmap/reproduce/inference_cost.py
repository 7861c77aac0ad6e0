"""Cost of classifying nodes: a network on node features compared with GCN, which also reads neighbours.

The paper compares its own method on one node with GCN on all nodes. Here both are timed on both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypedDict

import torch
from torch import Tensor, nn

from eigenmap.core.sparse import sparse_csr
from eigenmap.model import NodeEncoderSpec, NodeInput
from eigenmap.reproduce.methods import Scale

LAYERS, GCN_WIDTH = 3, 256
"""Size of the GCN in OGB's examples, with which the paper compares."""
BLOCK = 16_384
"""Number of nodes classified at once."""
SINGLES = 20
"""Number of nodes classified one by one."""


@dataclass(frozen=True)
class Size:
    """Sizes of a graph and of the paper's encoder."""

    nodes: int
    edges: int
    features: int = 100
    classes: int = 47
    width: int = 2048
    blocks: int = 5


PRODUCTS = Size(2_449_029, 61_859_140)
"""OGBN-Products."""
SIZES: dict[Scale, Size] = {
    "paper": PRODUCTS,
    "small": PRODUCTS,
    "tiny": Size(2_000, 10_000, features=16, classes=5, width=64, blocks=2),
}


class CostRow(TypedDict):
    """Seconds of one method."""

    method: str
    whole_set_s: float
    per_node_s: float
    one_node_s: float


@dataclass(frozen=True)
class Neighbours:
    """Normalised adjacency with self-loops, S = D^-1/2 (A + I) D^-1/2, as rows of neighbours and weights."""

    first: Tensor
    columns: Tensor
    weights: Tensor

    def __len__(self) -> int:
        return len(self.first) - 1

    def rows(self, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the entries of some rows: position in `nodes`, column, weight."""
        count = self.first[nodes + 1] - self.first[nodes]
        place = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), count)
        before = torch.cumsum(count, 0) - count
        entry = torch.arange(len(place), device=nodes.device) - before[place] + self.first[nodes][place]
        return place, self.columns[entry], self.weights[entry]

    def matrix(self) -> Tensor:
        """Return S as a sparse matrix."""
        return sparse_csr(self.first, self.columns, self.weights, (len(self), len(self)))


class GCN(nn.Module):
    """h <- relu(S h W), three times, the last without relu; Kipf and Welling, ICLR 2017."""

    def __init__(self, features: int, classes: int, width: int = GCN_WIDTH, layers: int = LAYERS) -> None:
        super().__init__()
        sizes = [features, *[width] * (layers - 1), classes]
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(sizes))

    def forward(self, x: Tensor, operator: Tensor) -> Tensor:
        """Classify all nodes."""
        for number, layer in enumerate(self.layers):
            x = operator @ layer(x)
            x = x.relu() if number + 1 < len(self.layers) else x
        return x

    def of_nodes(self, x: Tensor, neighbours: Neighbours, nodes: Tensor) -> Tensor:
        """Classify some nodes exactly, reading only the neighbourhood that their scores depend on."""
        needed = [nodes]
        for _ in self.layers:
            needed.append(torch.unique(neighbours.rows(needed[-1])[1]))
        h = x[needed[-1]]
        for number, (layer, inside, wanted) in enumerate(
            zip(self.layers, reversed(needed[1:]), reversed(needed[:-1]), strict=True)
        ):
            place, column, weight = neighbours.rows(wanted)
            sent = layer(h)[torch.searchsorted(inside, column)] * weight[:, None]
            h = torch.zeros(len(wanted), sent.shape[1], device=h.device).index_add_(0, place, sent)
            h = h.relu() if number + 1 < len(self.layers) else h
        return h


def inference_cost(
    size: Size,
    device: torch.device,
    neighbours: Neighbours,
    x: Tensor,
    *,
    repeat: int = 5,
    seed: int = 0,
    say: Callable[[str], None] = lambda line: None,
) -> list[CostRow]:
    """Time both methods on all nodes and on single nodes; weights are random, which does not affect the time."""
    torch.manual_seed(seed)
    encoder = NodeEncoderSpec(size.width, size.blocks).build(NodeInput(size.features))
    ours = nn.Sequential(encoder, nn.Linear(size.width, size.classes)).to(device).eval()
    gcn = GCN(size.features, size.classes).to(device).eval()
    operator = neighbours.matrix()
    singles = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:SINGLES].to(device)
    methods: dict[str, tuple[Callable[[], Tensor], Callable[[Tensor], Tensor]]] = {
        f"ours, encoder of width {size.width:,}": (
            lambda: torch.cat([ours(x[start : start + BLOCK]) for start in range(0, len(x), BLOCK)]),
            lambda node: ours(x[node]),
        ),
        f"GCN, {LAYERS} layers of width {GCN_WIDTH}": (
            lambda: gcn(x, operator),
            lambda node: gcn.of_nodes(x, neighbours, node),
        ),
    }
    rows: list[CostRow] = []
    with torch.inference_mode():
        for name, (whole, single) in methods.items():
            say(f"{name} ...")
            total = statistics.median(seconds(whole, device) for _ in range(repeat + 1))
            single(singles[:1])
            ones = [seconds(partial(single, node), device) for node in torch.split(singles, 1)]
            rows.append(
                CostRow(
                    method=name,
                    whole_set_s=total,
                    per_node_s=total / len(x),
                    one_node_s=statistics.median(ones),
                )
            )
    return rows


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Return the seconds of one call, waiting for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def random_neighbours(size: Size, device: torch.device, seed: int = 0) -> Neighbours:
    """Draw a random graph of a given size, with log-normal node weights and without repeated edges or loops."""
    generator = torch.Generator(device).manual_seed(seed)
    share = torch.randn(size.nodes, generator=generator, device=device).exp().double().cumsum(0)

    def ends() -> Tensor:
        drawn = torch.rand(size.edges, generator=generator, device=device, dtype=torch.float64) * share[-1]
        return torch.searchsorted(share, drawn).clamp_(max=size.nodes - 1)

    return normalised(torch.stack([ends(), ends()]), size.nodes)


def normalised(edges: Tensor, nodes: int) -> Neighbours:
    """Return S of a list of edges (2, n); each edge is listed once and counts in both directions."""
    loops = torch.arange(nodes, device=edges.device).expand(2, nodes)
    kept = edges[:, edges[0] != edges[1]]
    keys = torch.unique(torch.cat([row * nodes + column for row, column in (kept, kept.flip(0), loops)]))
    row, column = torch.div(keys, nodes, rounding_mode="floor"), keys % nodes
    degree = torch.bincount(row, minlength=nodes)
    first = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
    scale = degree.float().rsqrt()
    return Neighbours(first, column, scale[row] * scale[column])
