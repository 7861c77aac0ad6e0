"""Tasks of node classification: a graph without the nodes that are withheld, labels, splits, and the whole graph.

Setting "seen": the whole graph is there in training; test nodes differ from training nodes by their labels only.
Setting "unseen": a fifth of the labelled nodes (of an official split: of its test nodes) is not there, neither features
nor edges. At test time a method may look at the features of such a node; those that need a graph are given its edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from scipy import sparse
from torch import Tensor

from benchmarks.graphs import made
from benchmarks.graphs.jobs import OFFICIAL, WITHHELD, Setting
from benchmarks.graphs.rivals.features import Part, standardised
from benchmarks.graphs.rivals.propagation import adjacency
from eigenmap.data import Graph, load_graph
from eigenmap.evaluation.nodes import NodeSplit, random_split
from eigenmap.networks import SparseRows

HETEROPHILOUS = ("actor", "squirrel_filtered")
"""Graphs whose edges join nodes of different classes; their published split is used."""
PUBLISHED = "-official"
"""Ending of the name of a set whose published split is used, with 20 labels of each class, instead of random ones."""


@dataclass(frozen=True)
class Task:
    """The training graph, whose nodes are `kept` of the whole graph, and the whole graph.

    Attributes:
        x: features of all nodes, dense ones standardised over the kept nodes.
        y: labels of all nodes, below 0 where there is none.
        whole: the adjacency matrix of all nodes.
        matrix: that of the kept nodes, which are numbered 0 ... len(kept) - 1 in it.
        kept: node numbers in the whole graph.
        unseen: labelled node numbers in the whole graph that were not there in training.
        splits: of the kept nodes, in the numbers of `matrix`.

    """

    x: Part
    y: Tensor
    whole: sparse.csr_matrix
    matrix: sparse.csr_matrix
    kept: Tensor
    unseen: Tensor
    splits: list[NodeSplit]

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    @property
    def seen_x(self) -> Part:
        """Features of the kept nodes."""
        return self.x[self.kept]

    @property
    def seen_y(self) -> Tensor:
        return self.y[self.kept]

    def graph(self) -> Graph:
        """The training graph for our own front door."""
        coo = sparse.triu(self.matrix).tocoo()
        edges = torch.stack([torch.from_numpy(coo.row).long(), torch.from_numpy(coo.col).long()])
        return Graph(self.seen_x.to("cpu"), edges)


def load_task(
    folder: Path, data: str, setting: Setting, seed: int, n_splits: int, device: torch.device | str = "cpu"
) -> Task:
    """Read or make a graph and the task of one seed: which nodes are withheld, and its splits."""
    file = data.removesuffix(PUBLISHED)
    graph = made.graph(data) if data in made.RECIPES else load_graph(folder / f"{file}.npz")
    assert graph.y is not None and graph.edge_index is not None, "the benchmark needs labels and edges"
    published = data in (*OFFICIAL, *HETEROPHILOUS) or file != data
    official = _official(graph) if published else None
    # Of their fifth of test nodes, half stays in the graph.
    withheld = WITHHELD / 2 if data in HETEROPHILOUS else WITHHELD
    return make_task(graph, setting, seed, n_splits, official, device, withheld)


def make_task(
    graph: Graph,
    setting: Setting,
    seed: int,
    n_splits: int,
    official: NodeSplit | None = None,
    device: torch.device | str = "cpu",
    withheld: float = WITHHELD,
) -> Task:
    """The task of a graph; split number s of seed r is number 1000 r + s."""
    assert graph.y is not None and graph.edge_index is not None
    n = len(graph)
    unseen = torch.empty(0, dtype=torch.int64)
    if setting == "unseen":
        candidates = torch.nonzero(graph.y >= 0).flatten() if official is None else official.test
        count = round(withheld * int((graph.y >= 0).sum()))
        order = torch.randperm(len(candidates), generator=torch.Generator().manual_seed(10_000 + seed))
        unseen = candidates[order[:count]].sort().values
    inside = torch.ones(n, dtype=torch.bool)
    inside[unseen] = False
    kept = torch.nonzero(inside).flatten()
    place = torch.full((n,), -1)
    place[kept] = torch.arange(len(kept))
    y = graph.y[kept]
    if official is None:
        splits = [random_split(y, 1000 * seed + number) for number in range(n_splits)]
    else:
        test = official.test[inside[official.test]]
        splits = [NodeSplit(place[official.train], place[official.validation], place[test])] * n_splits
    whole = adjacency(graph.edge_index, n)
    matrix = whole[kept.numpy()][:, kept.numpy()]
    x = graph.x if isinstance(graph.x, SparseRows) else standardised(graph.x.float(), kept)
    moved = {id(split): NodeSplit(*(part.to(device) for part in split)) for split in splits}
    splits = [moved[id(split)] for split in splits]
    return Task(x.to(device), graph.y.to(device), whole, matrix.tocsr(), kept.to(device), unseen.to(device), splits)


def _official(graph: Graph) -> NodeSplit:
    return NodeSplit(*(graph.splits[name] for name in ("train", "validation", "test")))
