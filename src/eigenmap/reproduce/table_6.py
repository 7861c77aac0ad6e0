"""Table 6: node classification with 100, 10 and 1 % of the training labels: four rivals, and linear probes of codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.data.graphs.graph import Graph, load_graph
from eigenmap.data.graphs.ogb_folder import is_ogb_folder, read_ogb_folder
from eigenmap.evaluation.node_codes import StreamedCodes
from eigenmap.evaluation.nodes import NodeSplit, evaluate_nodes, random_split
from eigenmap.fitting.graph import fit_graph
from eigenmap.model import Eigenmap
from eigenmap.networks import SparseRows
from eigenmap.networks.network import encoder_width
from eigenmap.recipes.graph import GRAPH, PAPER, GraphRecipe
from eigenmap.reproduce.methods import Scale
from eigenmap.reproduce.node_rivals import (
    Classifier,
    Fitting,
    graph_convolution,
    laplacian_codes,
    node2vec_codes,
    rival_accuracies,
)
from eigenmap.training import CollapseError, DivergedError
from eigenmap.training.config import Accelerator

SHARES = (1.0, 0.1, 0.01)
HELD_BYTES = 4e9
"""Maximum memory of codes in bytes; larger ones are computed on demand."""
RIVALS = {
    "mlp": "MLP",
    "laplacian": "Laplacian eigenmap + MLP",
    "node2vec": "node2vec + MLP",
    "gcn": "GCN",
}
"""The paper's other rows; codes are given to the MLP beside the features."""
TITLES = {
    "features": "raw features",
    "unordered": "the paper's, unordered",
    "ordered": "the paper's, ordered",
    "default": "ours, the default recipe",
}
"""Codes that are probed."""
SMALL = Classifier(batch_norm=True, epochs=100, check_every=5)
TINY = Classifier(width=32, batch_norm=True, epochs=20, check_every=5)
FITTINGS: dict[Scale, Fitting] = {
    "paper": Fitting(),
    "small": Fitting(SMALL, SMALL, length=20, walks=5, window=5),
    "tiny": Fitting(TINY, TINY, dims=8, length=5, walks=2, window=2),
}
"""At small scale, MLPs have BatchNorm and dropout as GCN has; at the paper's, both are those of the paper."""


class NodeProbeRow(TypedDict):
    """Accuracy of one method on the test nodes: mean and standard deviation over the runs of its classifier.

    Both are None if training collapsed, as `collapsed` describes.
    """

    method: str
    share: float
    accuracy: float | None
    spread: float | None
    collapsed: str | None


def recipe_of_graph(method: str, scale: Scale) -> GraphRecipe:
    """Return the recipe of a method; at small scale the paper's uses fewer steps, nodes per block and features."""
    if method == "default":
        return GRAPH if scale != "tiny" else GRAPH.but(width=32, n_components=16, batch_size=64, steps=60)
    paper = PAPER if method == "unordered" else PAPER.but(objective="neuralef")
    if scale == "paper":
        return paper
    if scale == "small":
        return paper.but(n_components=2048, batch_size=2048, steps=1000)
    return paper.but(width=32, blocks=1, n_components=16, batch_size=64, steps=60)


def table_6(
    scale: Scale,
    graph: Graph,
    *,
    runs: int = 10,
    seed: int = 0,
    device: Accelerator = "auto",
    say: Callable[[str], None] = lambda line: None,
) -> list[NodeProbeRow]:
    """Train the rivals `runs` times, and our methods once, whose encoders the paper's probe classifies `runs` times."""
    assert graph.y is not None
    splits = _splits(graph, runs)
    gpu = "cuda" if device != "cpu" and torch.cuda.is_available() else None
    probe = "ridge" if scale == "tiny" else "paper"
    rows = rival_rows(scale, graph, splits, seed, torch.device(gpu or "cpu"), say)
    for name, title in TITLES.items():
        say(f"{title} ...")
        try:
            codes = _codes(name, scale, graph, seed, device)
        except (CollapseError, DivergedError) as error:
            say(f"{title}: {error}")
            rows += [probe_row(title, share, None, None, str(error)) for share in SHARES]
            continue
        place = gpu if isinstance(codes, Tensor) else None  # streamed codes stay where they are computed
        found = evaluate_nodes(codes, graph.y, splits, shares=SHARES, dims=[codes.shape[1]], probe=probe, device=place)
        rows += [probe_row(title, row["share"], row["accuracy"], row["spread"]) for row in found]
    return rows


def probe_row(
    method: str, share: float, accuracy: float | None, spread: float | None, collapsed: str | None = None
) -> NodeProbeRow:
    """Return a row of the table."""
    return NodeProbeRow(method=method, share=share, accuracy=accuracy, spread=spread, collapsed=collapsed)


def rival_rows(
    scale: Scale,
    graph: Graph,
    splits: Sequence[NodeSplit],
    seed: int,
    device: torch.device,
    say: Callable[[str], None] = lambda line: None,
) -> list[NodeProbeRow]:
    """Train an MLP on three inputs, and GCN."""
    assert graph.y is not None
    how, walk = FITTINGS[scale], graph.walk()
    x, y = dense_features(graph).to(device), graph.y.to(device)
    rows = []
    for name, title in RIVALS.items():
        say(f"{title} ...")
        given = x
        if name == "laplacian":
            given = torch.cat([x, laplacian_codes(walk, how.dims, seed).to(device)], dim=1)
        elif name == "node2vec":
            given = torch.cat([x, node2vec_codes(walk, how, device, seed)], dim=1)
        classifier, propagate = how.mlp, None
        if name == "gcn":
            classifier, propagate = how.gcn, graph_convolution(walk, device)
        for share in SHARES:
            accuracy, spread = rival_accuracies(given, y, splits, share, propagate, classifier, seed)
            rows.append(probe_row(title, share, accuracy, spread))
    return rows


def load_labelled_graph(scale: Scale, source: str | None) -> Graph:
    """Read a graph with labels; for `tiny` it is generated."""
    if scale == "tiny":
        return generated_graph()
    if source is None:
        raise EigenmapError(
            f"scale={scale} needs a graph as data=, such as ogb:ogbn-products, "
            "or a file or folder with x, edge_index and y."
        )
    graph = read_ogb_folder(Path(source)) if is_ogb_folder(source) else load_graph(source)
    if graph.y is None:
        raise EigenmapError(f"{source} has no labels; add an array y with one class number per node.")
    return graph


def generated_graph(nodes: int = 240, classes: int = 4, seed: int = 0) -> Graph:
    """Generate blocks of nodes, linked mostly within their block, whose features are correlated with the block."""
    rng = np.random.default_rng(seed)
    y = np.arange(nodes) % classes
    x = (rng.normal(size=(classes, 8))[y] + rng.normal(size=(nodes, 8))).astype(np.float32)
    first = rng.integers(nodes, size=4 * nodes)
    inside = (first + classes * rng.integers(1, nodes // classes, len(first))) % nodes
    second = np.where(rng.random(len(first)) < 0.9, inside, rng.integers(nodes, size=len(first)))
    return Graph(torch.from_numpy(x), torch.from_numpy(np.stack([first, second])), y=torch.from_numpy(y))


def _splits(graph: Graph, runs: int) -> list[NodeSplit]:
    assert graph.y is not None
    parts = [graph.splits.get(name) for name in ("train", "validation", "test")]
    if any(part is None for part in parts):
        return [random_split(graph.y, seed) for seed in range(runs)]
    return [NodeSplit(*(part[graph.y[part] >= 0] for part in parts if part is not None))] * runs


def dense_features(graph: Graph) -> Tensor:
    """Return the features of all nodes as a dense matrix."""
    return graph.x.dense() if isinstance(graph.x, SparseRows) else graph.x.float()


def _codes(name: str, scale: Scale, graph: Graph, seed: int, device: Accelerator) -> Tensor | StreamedCodes:
    """Return raw features, or the output of a trained encoder."""
    if name == "features":
        return dense_features(graph)
    model = fit_graph(graph, recipe=recipe_of_graph(name, scale), seed=seed, device=device, progress=False)
    return encoder_codes(model, graph.x)


def encoder_codes(model: Eigenmap, x: Tensor | SparseRows) -> Tensor | StreamedCodes:
    """Return the encoder's output for all nodes, computed on demand if it does not fit into memory."""
    rows = model.input.read(x)

    def encode(nodes: Tensor) -> Tensor:
        return torch.cat(list(model.raw(rows[nodes.to(rows.device)], batch_size=4096, source="encoder")))

    width = encoder_width(model.network.encoder)
    if len(rows) * width * 4 > HELD_BYTES:
        return StreamedCodes(encode, (len(rows), width))
    return encode(torch.arange(len(rows)))
