"""Cost of our default model, from features alone and with edges, beside a GCN on the same device in the same run.

    python -m benchmarks.graphs.edge_cost --data FOLDER --set debian_bookworm --json FILE
    python -m benchmarks.graphs.edge_cost --set products --scale 1 --json FILE          # a synthetic graph of that size

"All nodes" goes from features (and edges) on the device to class scores of every node: our network as the library runs
it (batch normalisation folded, at the width and depth that its default fit chose), the rotation to a code of 128
features, the average over neighbours, the second rotation, a linear classifier. GCN: two layers of width 256, full
batch. "One node" is the median of several. With edges, ours reads the stored codes of the neighbours; a GCN reads
features of neighbours and of their neighbours, all of them or ten of each. Weights are random, which costs the same.
`working_mb` is the memory that a method takes beside its inputs, `inputs_mb` that of features, edges and weights that
it needs.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.common import harness
from benchmarks.common.timing import Clock, median_seconds, wait
from benchmarks.graphs import RESULTS
from benchmarks.graphs.edges import ALL_SETS
from benchmarks.graphs.rivals import gcn
from benchmarks.graphs.rivals.features import Part, widths
from benchmarks.graphs.rivals.propagation import csr_tensor
from benchmarks.graphs.synthetic import CLASSES, Shape, generate
from benchmarks.graphs.tasks import PUBLISHED, load_task
from eigenmap.data import Graph
from eigenmap.data.graphs.adjacency import Adjacency, build_adjacency
from eigenmap.fitting.graph import fit_graph
from eigenmap.fitting.size import Size
from eigenmap.model import NodeEncoderSpec
from eigenmap.model.eigenmap import NODES_ON_CPU
from eigenmap.networks import Network, ResidualMLP
from eigenmap.networks.folding import FoldedMLP, Inference
from eigenmap.recipes.graph import GRAPH
from eigenmap.relations.device_propagation import diagonal, operator, propagated
from eigenmap.relations.propagation import Propagation, Smoothing
from eigenmap.spectrum import unit_rms_rows

LENGTH = GRAPH.n_components
BATCH = 8192
"""Nodes that our network encodes at a time on a GPU; on a CPU as many as in the library."""
SINGLES, FANOUT = 50, 10
SLOW = 2.0
PRODUCTS, ON_CPU = "products", 0.1
"""The synthetic graph, and the share of its size that is made for the CPU."""
WAYS = (Propagation("S"), Propagation("S2"), Propagation("concat"), Propagation("pagerank", 0.1))
Work = Callable[[], object]


@dataclass(frozen=True)
class Inputs:
    """A graph on a device."""

    x: Part
    walk: Adjacency
    n_classes: int

    @property
    def device(self) -> torch.device:
        return self.x.device

    def to(self, device: str) -> Inputs:
        return Inputs(self.x.to(device), self.walk.to(device), self.n_classes)


def read(folder: Path | None, name: str, scale: float, device: str) -> Inputs:
    """Read a set, or make the synthetic graph."""
    if name == PRODUCTS:
        data = generate(Shape.of(scale), 0, torch.device(device))
        return Inputs(data.x, data.walk, CLASSES)
    assert folder is not None, "a set needs --data"
    task = load_task(folder, name, "seen", 0, 1, "cpu")
    coo = sparse.triu(task.whole).tocoo()
    index = torch.stack([torch.from_numpy(coo.row).long(), torch.from_numpy(coo.col).long()])
    walk = build_adjacency(index, len(task.y))
    return Inputs(task.x, walk, task.n_classes).to(device)


def fitted_size(folder: Path | None, name: str, device: str, results: Path) -> Size:
    """The size that the default fit chose: of a stored run on this graph, whatever its split, else of a new fit.

    That of the synthetic graph is chosen on the smaller one that is made for the CPU.
    """
    for split in ("", PUBLISHED):
        path = results / f"edges-{name}{split}-ours-seen-s0.json"
        stored = json.loads(path.read_text(encoding="utf-8")).get("size") if path.is_file() else None
        if stored:
            return Size(stored["width"], stored["blocks"])
    if name == PRODUCTS:
        data = generate(Shape.of(ON_CPU), 0, torch.device(device))
        graph = Graph(data.x.cpu(), data.walk.to("cpu").edges())
    else:
        assert folder is not None, "a set needs --data"
        graph = load_task(folder, name, "seen", 0, 1, "cpu").graph()
    spec = fit_graph(graph, LENGTH, device=device, progress=False).encoder  # type: ignore[arg-type]
    assert isinstance(spec, NodeEncoderSpec)
    return Size(spec.width, spec.blocks)


def at_a_time(device: torch.device) -> int:
    """Return the number of nodes that our network encodes at a time."""
    return BATCH if device.type == "cuda" else NODES_ON_CPU


class Ours(nn.Module):
    """The library's default network, folded; rotation, second rotation and classifier are random."""

    def __init__(self, given: Inputs, how: Inference, size: Size) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.batch = at_a_time(given.device)
        width = size.width
        encoder = ResidualMLP(given.x.shape[1], width, size.blocks)
        if isinstance(given.x, Tensor):  # dense features are standardised, as in a fit
            encoder.standardise(torch.randn(given.x.shape[1]), torch.rand(given.x.shape[1]) + 0.5)
        network = Network(encoder, LENGTH).to(given.device).eval()
        self.folded = FoldedMLP(network, "encoder", how)
        self.rotation = torch.randn(width, LENGTH, device=given.device) / width**0.5
        self.again = torch.randn(LENGTH, LENGTH, device=given.device) / LENGTH**0.5
        self.concatenated = torch.randn(3 * LENGTH, LENGTH, device=given.device) / (3 * LENGTH) ** 0.5
        self.classify = nn.Linear(LENGTH, given.n_classes).to(given.device)

    def code(self, x: Part) -> Tensor:
        """Codes from features alone."""
        return F.normalize(unit_rms_rows(self.folded(x)) @ self.rotation, dim=1)

    def codes(self, x: Part) -> Tensor:
        """Codes of all nodes, batch by batch."""
        found = torch.empty(len(x), LENGTH, device=x.device)
        for start in range(0, len(x), self.batch):
            found[start : start + self.batch] = self.code(x[start : start + self.batch])
        return found

    def scores(self, x: Part) -> Tensor:
        """Class scores of all nodes from features alone, batch by batch."""
        starts = range(0, len(x), self.batch)
        return torch.cat([self.classify(self.code(x[start : start + self.batch])) for start in starts])

    def of_propagated(self, y: Tensor) -> Tensor:
        """Class scores from propagated codes, batch by batch."""
        turn = self.concatenated if y.shape[1] > LENGTH else self.again
        parts = y.split(8 * self.batch)
        return torch.cat([self.classify(F.normalize(unit_rms_rows(part) @ turn, dim=1)) for part in parts])


class Method(NamedTuple):
    """What is timed: all nodes, one node (None where there is none), and the bytes of the inputs."""

    name: str
    every: Work | None
    one: Callable[[int], object] | None
    inputs: int


def methods(given: Inputs, hows: dict[str, Inference], size: Size) -> Iterator[Method]:
    """Ours in each precision, ours with each way, GCN on the whole graph and on neighbourhoods."""
    smooth = Smoothing.of(given.walk)
    S, own_share = operator(smooth, given.device), diagonal(smooth, given.device)
    features, edges = given.x.nbytes, sum(part.nbytes for part in (S.crow_indices(), S.col_indices(), S.values()))
    for name, how in hows.items():
        ours = Ours(given, how, size)
        yield Method(
            f"ours, features alone, {name}",
            lambda ours=ours: ours.scores(given.x),
            lambda node, ours=ours: ours.classify(ours.code(given.x[node : node + 1])),
            features + weights_of(ours),
        )
    # With edges, in the last precision that is not compiled: that is slower.
    name, how = [(name, how) for name, how in hows.items() if not how.compile][-1]
    ours = Ours(given, how, size)
    for way in WAYS:
        yield Method(
            f"ours with edges, {way.in_words}, {name}",
            lambda way=way: ours.of_propagated(propagated(way, S, own_share, ours.codes(given.x))),
            None,
            features + edges + weights_of(ours),
        )
    yield one_with_edges(given, ours, name)
    yield from gcns(given)


def weights_of(ours: Ours) -> int:
    """Bytes of our folded layers and rotations."""
    layers = [part for block in ours.folded.blocks for pair in block for part in pair]
    parts = [ours.folded.stem, ours.rotation, ours.again, *layers]
    return sum(part.nbytes for part in parts)


def one_with_edges(given: Inputs, ours: Ours, name: str) -> Method:
    """A new node: its own code and the stored codes of its neighbours (for one hop, or as the states of the last)."""
    stored = torch.randn(len(given.x), LENGTH, device=given.device)
    weight = torch.rand(len(given.x), device=given.device)
    indptr = given.walk.indptr.cpu().tolist() if len(given.x) < 10**7 else given.walk.indptr.cpu()
    indices = given.walk.indices

    def one(node: int) -> Tensor:
        near = indices[int(indptr[node]) : int(indptr[node + 1])].long()
        own = ours.code(given.x[node : node + 1])
        y = own + weight[near] @ stored[near]
        return ours.classify(F.normalize(unit_rms_rows(y) @ ours.again, dim=1))

    return Method(f"ours with edges, from stored codes, {name}", None, one, stored.nbytes + weights_of(ours))


def gcns(given: Inputs) -> Iterator[Method]:
    """GCN, width 256, two layers."""
    net = gcn.GCN(widths((given.x,)), given.n_classes, gcn.Settings()).to(given.device).eval()
    whole = gcn_matrix(given.walk)
    inputs = given.x.nbytes + sum(part.nbytes for part in (whole.crow_indices(), whole.col_indices(), whole.values()))
    inputs += sum(part.nbytes for part in net.parameters())
    yield Method("GCN, full batch", lambda: net((given.x,), whole), None, inputs)
    parts = (given.walk.indices.cpu().numpy(), given.walk.indptr.cpu().numpy())
    ones = torch.ones(given.walk.n_entries, dtype=torch.int8).numpy()
    matrix = sparse.csr_matrix((ones, *parts), shape=(len(given.x), len(given.x)))
    for name, fanout in ((f"GCN, {FANOUT} sampled neighbours a layer", FANOUT), ("GCN, exact neighbourhood", 10**9)):
        sampler = gcn.Neighbourhoods(matrix, fanout)

        def one(node: int, sampler: gcn.Neighbourhoods = sampler) -> Tensor:
            return gcn.sampled_scores(net, (given.x,), sampler, torch.tensor([node], device=given.device))

        yield Method(name, None, one, inputs)


def gcn_matrix(walk: Adjacency) -> Tensor:
    """D^-1/2 (A + I) D^-1/2, made on the device."""
    n, device = walk.n_nodes, walk.device
    index = torch.cat([walk.edges(), torch.arange(n, device=device).repeat(2, 1)], dim=1)
    order = torch.argsort(index[0] * n + index[1])
    row, column = index[0][order], index[1][order]
    degree = torch.bincount(row, minlength=n)
    values = (degree[row].float() * degree[column].float()).rsqrt()
    kind = torch.int32 if len(row) < 2**31 else torch.int64
    indptr = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
    return csr_tensor(indptr.to(kind), column.to(kind), values, (n, n))


def measure(given: Inputs, hows: dict[str, Inference], size: Size) -> list[dict[str, Any]]:
    """Seconds and memory of every method on the device of the graph; one that fails says why."""
    made = []
    random = torch.Generator().manual_seed(0)
    nodes = torch.randint(len(given.x), (SINGLES,), generator=random).tolist()
    with torch.inference_mode():
        for method in methods(given, hows, size):
            row: dict[str, Any] = {
                "method": method.name,
                "device": given.device.type,
                "inputs_mb": method.inputs / 1e6,
                "at_a_time": at_a_time(given.device),
            }
            try:
                row |= _timed(method, nodes, given.device)
            except RuntimeError as error:  # out of memory, or no compiler: the other rows are worth having
                row["failed"] = str(error)[:200]
            print(row, flush=True)
            made.append(row)
    return made


def _timed(method: Method, nodes: list[int], device: torch.device) -> dict[str, float]:
    found: dict[str, float] = {}
    if method.every is not None:
        clock = Clock(device)
        method.every()
        first = clock.seconds()
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            before = torch.cuda.memory_allocated(device)
            method.every()
            wait(device)
            found["working_mb"] = (torch.cuda.max_memory_allocated(device) - before) / 1e6
        # What takes seconds needs no repetition, and what takes a millisecond many.
        slow = first > SLOW and device.type == "cpu"
        found["all_nodes_s"] = first if slow else median_seconds(method.every, device, repetitions(first))
    if method.one is not None:
        one = method.one
        for node in nodes[:5]:
            one(node)
        found["one_node_s"] = statistics.median(
            median_seconds(lambda node=node: one(node), device, 3) for node in nodes
        )
    return found


def repetitions(seconds: float) -> int:
    """Return how often to repeat work that takes so long: for half a second, but at least five times."""
    return max(5, min(200, int(0.5 / seconds)))


def main() -> None:
    """Measure one graph on the GPU if there is one, and on the CPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--set", choices=(*ALL_SETS, PRODUCTS), required=True)
    parser.add_argument("--scale", type=float, default=1.0, help="share of OGBN-Products' nodes and edges")
    parser.add_argument("--compile", action="store_true", help="also time compiled layers, on a GPU")
    parser.add_argument("--results", type=Path, default=RESULTS, help="of edges; the size of ours is read there")
    parser.add_argument("--size", type=int, nargs=2, metavar=("WIDTH", "BLOCKS"), help="of ours, instead")
    parser.add_argument("--gpu-only", action="store_true", help="leave out the CPU, which is measured elsewhere")
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    graph = read(given.data, given.set, given.scale, device)
    hows = {"float32": Inference(), "bfloat16": Inference("bfloat16")}
    if given.compile and device == "cuda":
        hows["bfloat16, compiled"] = Inference("bfloat16", compile=True)
    size = Size(*given.size) if given.size else fitted_size(given.data, given.set, device, given.results)
    timings = measure(graph, hows if device == "cuda" else {"float32": Inference()}, size)
    if device == "cuda" and not given.gpu_only:
        small = read(None, PRODUCTS, ON_CPU * given.scale, "cpu") if given.set == PRODUCTS else graph.to("cpu")
        timings += [{**row, "nodes": len(small.x)} for row in measure(small, {"float32": Inference()}, size)]
    harness.write(
        given.json,
        {
            "benchmark": "graph cost with edges",
            "data": given.set,
            "nodes": len(graph.x),
            "edges": graph.walk.n_entries // 2,
            **size._asdict(),
            "timings": timings,
            **harness.environment(),
        },
    )


if __name__ == "__main__":
    main()
