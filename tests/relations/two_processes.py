"""What the two processes of `test_graph_two_processes` run: objectives on walks of a small graph under DDP."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from eigenmap.data import build_adjacency
from eigenmap.networks import Network, NodeFeatures, NodeNetwork, ResidualMLP
from eigenmap.objectives import build
from eigenmap.relations import GraphPairs, hold_out_edges

WORLD, NODES, FEATURES, K = 2, 40, 5, 4
OBJECTIVES = {"ritz-trace": {}, "scl": {}, "nested": {}, "neuralef": {"alpha": 1.0}}
WALKS: dict[str, dict[str, object]] = {
    "one hop": {},
    "two hops": {"hops": 2},
    "teleport, lazy, uniform": {"teleport": 0.2, "lazy": 0.2, "start": "uniform"},
    "balanced, pairs with weights": {"start": "balanced"},
}


def pairs(walk: str, rank: int = 0, world_size: int = 1) -> GraphPairs:
    """Walks on a random graph, some edges held out."""
    generator = torch.Generator().manual_seed(0)
    adjacency = build_adjacency(torch.randint(NODES, (2, 120), generator=generator), NODES)
    held_out = hold_out_edges(adjacency, 0.1)
    return GraphPairs(adjacency, 32, 7, held_out=held_out, rank=rank, world_size=world_size, **WALKS[walk])  # type: ignore[arg-type]


def network() -> NodeNetwork:
    """The same network everywhere, in float64; BatchNorm uses its averages: on CPUs torch cannot join its batches."""
    torch.manual_seed(0)
    x = torch.randn(NODES, FEATURES, dtype=torch.float64)
    inner = Network(ResidualMLP(FEATURES, width=8, blocks=1), n_components=K).double()
    return NodeNetwork(inner, NodeFeatures(x)).eval()


def loss_and_gradient(model: nn.Module, name: str, relation: GraphPairs, step: int) -> list[Tensor]:
    """One step as training takes it: both ends in one forward pass."""
    model.zero_grad()
    x, x_plus, kernel = relation.batch(step)
    _, psi = model(torch.cat([x, x_plus]))
    loss = build(name, **OBJECTIVES[name])(*psi.chunk(2), kernel)
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def run(rank: int, folder: str) -> None:
    """All cases as process `rank`; what came out is written."""
    torch.set_num_threads(1)
    store = Path(folder, "store").as_uri()
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=WORLD)
    model = nn.parallel.DistributedDataParallel(network())
    results = {
        (walk, name): loss_and_gradient(model, name, pairs(walk, rank, WORLD), step=3)
        for walk in WALKS
        for name in OBJECTIVES
    }
    torch.save(results, Path(folder, f"{rank}.pt"))
    dist.barrier()  # a process that ends while the other still talks to it may be aborted
    dist.destroy_process_group()
