"""Fit of graphs: from nodes with features and edges to a trained, ordered model in one call.

model = eigenmap.fit_graph("cora.npz", n_components=64)
codes = model.encode(features_of_new_nodes, dim=16)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from eigenmap.core.errors import EigenmapError
from eigenmap.core.logging import LogFunction
from eigenmap.core.rows import spread
from eigenmap.core.words import count
from eigenmap.data.graphs.adjacency import Adjacency, Tick, part_of
from eigenmap.data.graphs.graph import load_graph
from eigenmap.fitting import pipeline, size
from eigenmap.fitting.align import sources_of
from eigenmap.fitting.evidence import node_evidence
from eigenmap.fitting.graph_checks import check_relation, check_variety, wanted_way
from eigenmap.fitting.neighbours import choose, training_edges
from eigenmap.fitting.options import RunOptions, check_length
from eigenmap.fitting.problem import Problem
from eigenmap.model import Eigenmap, NodeEncoderSpec, NodeInput
from eigenmap.networks import Network, NodeFeatures, NodeNetwork, ResidualMLP, SparseRows
from eigenmap.objectives import build
from eigenmap.recipes.graph import (
    GRAPH,
    USUAL_BLOCKS,
    GraphRecipe,
    get_graph_recipe,
    objective_options,
    usual_steps,
    usual_width,
)
from eigenmap.recipes.recipe import identity
from eigenmap.relations.diffusion import diffuse
from eigenmap.relations.feature_propagation import propagated_features
from eigenmap.relations.graph import GraphPairs, NodeBlocks, hold_out_edges
from eigenmap.relations.propagation import Smoothing
from eigenmap.spectrum import Alignment
from eigenmap.training import TrainingConfig
from eigenmap.training.config import Accelerator
from eigenmap.training.launch import machines
from eigenmap.training.progress import Progress

if TYPE_CHECKING:
    from lightning_fabric import Fabric

FEWEST_NODES = 4
"""Minimum number of nodes."""

RESIDENT = 0.5
"""Maximum share of the GPU's free memory for edges and features."""


def fit_graph(
    graph: object,
    n_components: int | None = None,
    *,
    x: object = None,
    recipe: str | GraphRecipe = "auto",
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    minutes: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    device: Accelerator = "auto",
    devices: int = 1,
    nodes: int = 1,
    tensorboard: bool = False,
    progress: bool | Progress = True,
    reading: Tick | None = None,
    say: Callable[[str], None] | None = None,
    **settings: Any,
) -> Eigenmap:
    """Learn ordered codes of nodes from a graph. The model then encodes any nodes, seen or new, from features alone.

    Args:
        graph: an .npz file or a folder (see docs/graphs.md), a `Graph`, (x, edge_index), a PyG `Data`, a scipy sparse
            adjacency matrix or a networkx graph.
        n_components: number of features to learn; codes can be cut at any shorter length.
        x: features of the nodes, if the graph has none.
        recipe: "auto", "paper", or a `GraphRecipe`.
        out: folder for the model, checkpoints and metrics; without it nothing is written.
        resume: continue from the last checkpoint in `out`.
        force: write into `out` even if it contains a run.
        minutes: length of training in minutes, instead of the recipe's steps; with `steps`, whichever ends first.
        seed: seed of everything random; on a CPU, the same seed, steps and threads give the same model.
        threads: CPU threads for training; by default measured at the start, unless OMP_NUM_THREADS is set.
        device: "auto", "cpu", "cuda" or "mps".
        devices: number of devices per machine; leave out under torchrun.
        nodes: number of machines; leave out under torchrun.
        tensorboard: write TensorBoard files beside metrics.jsonl.
        progress: True for a progress bar, False for none, or your own `Progress` object.
        reading: called as `reading(done, total)` while the graph is read, sorted and counted.
        say: called with messages (components, isolated nodes, rank found).
        settings: any setting of the recipe, for example `steps=3000`, `objective="scl"`, `hops=2`, `width=512`.

    Example:
        >>> model = fit_graph((x, edge_index), n_components=32, steps=500)  # doctest: +SKIP
        >>> model.training["graph"]["components"]  # doctest: +SKIP

    """
    options = RunOptions.checked(
        out=out,
        resume=resume,
        force=force,
        seed=seed,
        device=device,
        devices=devices,
        nodes=nodes,
        tensorboard=tensorboard,
        progress=progress,
        say=say,
        minutes=minutes,
        steps=settings.get("steps"),
        threads=threads,
        length_given=minutes is not None or settings.get("steps") is not None,
    )
    chosen = recipe if isinstance(recipe, GraphRecipe) else get_graph_recipe(recipe)
    chosen = chosen.but(n_components=n_components, **settings)
    check_length(settings.get("steps"), minutes)
    machines(options.config(chosen, chosen.steps))  # fail before anything is read
    if chosen.sampler == "node-blocks" and chosen.teleport == GRAPH.teleport:  # the default
        chosen = chosen.but(teleport=0.0)
    check_relation(chosen, build(chosen.objective, **objective_options(chosen)))

    reads, sorts, counts = (part_of(reading, part, 3) for part in range(3))
    data = load_graph(graph, x, reads)
    check_variety(data.x)
    walk = data.walk(chosen.directed, chosen.self_loops, sorts)
    chosen = _fitted(chosen, len(data), n_components is not None, options.say)
    words = _mostly_zero(data.x)
    if chosen.feature_dropout is None:
        chosen = chosen.but(feature_dropout=0.5 if words else 0.0)
    sized = chosen.width is not None or chosen.blocks is not None
    chosen = chosen.but(width=chosen.width or usual_width(words, len(data)))
    chosen = chosen.but(blocks=USUAL_BLOCKS if chosen.blocks is None else chosen.blocks)
    about, digest = describe(walk, counts), data.digest(walk)
    _report(about, walk.cumulative is not None, options.say)
    if recipe == "auto" and not options.length_given:
        chosen = _with_fewer_steps(chosen, about["edges"], options.say)
    task = GraphTask(chosen, walk, data.x, words, about, digest)
    if chosen.go_on:
        task = replace(task, walk=diffuse(data, chosen.go_on, chosen.walks, options.seed).walk(), edges=walk)
    return pipeline.fit(task if sized else size.sized(task, options), options)


@dataclass(frozen=True)
class GraphTask:
    """Graph to learn from: the two ends of an edge, or of a walk, belong together.

    Attributes:
        recipe: all settings.
        walk: adjacency whose entries are the training pairs.
        x: features of the nodes.
        words: whether features are like bags of words, which keep their scale.
        about: description of the graph, from `describe`.
        digest: identifies the graph when a run is resumed.
        edges: edges of the graph if `walk` contains the ends of longer walks; else None.
        sizes: scores of the network sizes that were compared.

    """

    recipe: GraphRecipe
    walk: Adjacency
    x: Tensor | SparseRows
    words: bool
    about: dict[str, int]
    digest: str
    edges: Adjacency | None = None
    sizes: Sequence[size.Score] = ()

    @property
    def steps(self) -> int:
        """Number of training steps."""
        return self.recipe.steps

    @property
    def step_in_words(self) -> str:
        """Content of a step."""
        return f"{self.recipe.batch_size:,} edges"

    def problem(self, fabric: Fabric, config: TrainingConfig) -> Problem:
        """State the problem: walks over training edges, held-out edges, a perceptron on node features, an objective."""
        recipe, seed = self.recipe, config.seed
        node = NodeInput(self.x.shape[1], recipe.feature_hops)
        assert recipe.width is not None and recipe.blocks is not None
        spec = NodeEncoderSpec(recipe.width, recipe.blocks)
        torch.manual_seed(seed)
        encoder = spec.build(node, recipe.feature_dropout or 0.0)
        network = Network(encoder, recipe.n_components, recipe.hidden)
        walk, features = _placed(self.walk, self._seen(seed), fabric.device)
        if recipe.standardise and not self.words:
            _standardise(encoder, features)
        nodes = NodeNetwork(network, NodeFeatures(features))
        pairs = _pairs(recipe, walk, seed, fabric)
        objective = build(recipe.objective, **objective_options(recipe))
        return Problem(
            network=nodes,
            stored=network,
            relation=pairs if recipe.sampler == "edges" else _blocks(recipe, walk, seed, fabric),
            objective=objective,
            held_out=lambda: pairs.held_out_pairs(torch.Generator().manual_seed(seed), 512, 1024),
            evidence=lambda share: node_evidence(nodes, pairs, sources_of(recipe.codes), seed, objective.ordered),
            input=node,
            encoder=spec,
            identity={
                **identity(recipe),
                "nodes": self.about["nodes"],
                "edges": self.about["edges"],
                "graph": self.digest,
                **({"feature_hops": recipe.feature_hops} if recipe.feature_hops else {}),
            },
            facts=lambda alignment, say: self._facts(pairs, alignment, say),
            neighbours=lambda encode: choose(
                encode, features, self.judging(pairs, seed), recipe.n_components, seed, wanted_way(recipe)
            ),
        )

    def _seen(self, seed: int) -> Tensor | SparseRows:
        """Return the input of the network: features, and their averages over training edges if the recipe has them."""
        if self.recipe.feature_hops == 0:
            return self.x
        edges = self.edges or self.walk
        training = training_edges(edges, hold_out_edges(edges, self.recipe.held_out, seed=seed))
        return propagated_features(self.x, Smoothing.of(training), self.recipe.feature_hops)

    def judging(self, pairs: GraphPairs, seed: int) -> GraphPairs:
        """Return the edges on which uses of neighbours are compared: those of the graph, not of longer walks."""
        if self.edges is None:
            return pairs
        return GraphPairs(self.edges, 2, seed, held_out=hold_out_edges(self.edges, self.recipe.held_out, seed=seed))

    def _facts(self, pairs: GraphPairs, alignment: Alignment, say: LogFunction) -> dict[str, Any]:
        """Describe the graph, and count the eigenvalues that are clearly positive."""
        positive = int((alignment.eigenvalues > 2 * alignment.noise).sum())
        where = _judged_on(self.recipe, pairs)
        say(f"{positive} of {alignment.n_components} eigenvalues are clearly positive on {where}.")
        return {
            "graph": {**self.about, "positive_eigenvalues": positive},
            "held_out_edges": 0 if pairs.held_out is None else len(pairs.held_out.keys),
            **({"sizes": list(self.sizes)} if self.sizes else {}),
        }


def _mostly_zero(x: Tensor | SparseRows) -> bool:
    """Tell whether fewer than one feature in ten is non-zero, as in bags of words (estimated if dense)."""
    if isinstance(x, SparseRows):
        return len(x.columns) < x.shape[0] * x.shape[1] / 10
    rows = _sample(x)
    return sum(int((x[strip] != 0).sum()) for strip in rows) < sum(map(len, rows)) * x.shape[1] / 10


def _sample(x: Tensor) -> tuple[Tensor, ...]:
    """Return up to 100,000 row numbers, in strips, since the features may be a memory map larger than memory."""
    return torch.split(spread(len(x), 100_000).to(x.device), 4096)


def _pairs(recipe: GraphRecipe, walk: Adjacency, seed: int, fabric: Fabric) -> GraphPairs:
    """Return the walks of a recipe, with some edges held out, for training (except with node blocks) and alignment."""
    return GraphPairs(
        walk,
        recipe.batch_size,
        seed,
        hops=recipe.hops,
        start=recipe.start,
        teleport=recipe.teleport,
        lazy=recipe.lazy,
        held_out=hold_out_edges(walk, recipe.held_out, seed=seed),
        rank=fabric.global_rank,
        world_size=fabric.world_size,
    )


def _judged_on(recipe: GraphRecipe, pairs: GraphPairs) -> str:
    """Describe the pairs on which eigenvalues are measured."""
    if pairs.held_out is None:
        return "the training edges (none were held out)"
    if recipe.sampler == "node-blocks":
        return "edges that the blocks contained too"
    return "held-out pairs of ends of walks" if recipe.go_on else "held-out edges"


def _blocks(recipe: GraphRecipe, walk: Adjacency, seed: int, fabric: Fabric) -> NodeBlocks:
    if fabric.world_size > 1:
        raise EigenmapError(
            'Node blocks need a single process, since they drop rows without an edge; use sampler="edges".'
        )
    return NodeBlocks(walk, recipe.batch_size, seed)


def describe(walk: Adjacency, progress: Tick | None = None) -> dict[str, int]:
    """Count nodes, edges, isolated nodes, connected components (without these) and edges merged or left out."""
    degrees = walk.indptr.diff().cpu()
    found, label = walk.components(progress=progress)
    alone = torch.bincount(label, minlength=found)[label] == 1
    isolated = int((alone & (degrees == 0)).sum())  # a node with a self-loop is not isolated
    loops = sum(int((rows == columns).sum()) for rows, columns in walk.strips()) if walk.symmetric else 0
    return {
        "nodes": walk.n_nodes,
        # A self-loop is stored once, every other undirected edge twice.
        "edges": (walk.n_entries + loops) // 2 if walk.symmetric else walk.n_entries,
        "isolated": isolated,
        "components": found - isolated,
        "largest_degree": int(degrees.max()),
        "repeated_edges_merged": walk.merged,
        "self_loops_left_out": walk.loops,
    }


def _report(about: dict[str, int], weighted: bool, say: LogFunction) -> None:
    say(
        f"{about['nodes']:,} nodes, {count(about['edges'], 'edge')}, "
        f"{count(about['components'], 'connected component')}, "
        f"largest degree {about['largest_degree']:,}."
    )
    if about["isolated"]:
        say(f"{about['isolated']:,} nodes have no edges: they do not contribute to training, but get codes.")
    if about["repeated_edges_merged"]:
        added = ", and their weights are added" if weighted else ""
        say(f"{about['repeated_edges_merged']:,} edges are listed more than once and count once{added}.")
    if about["self_loops_left_out"]:
        say(f"{about['self_loops_left_out']:,} self-loops are left out.")


def _fitted(recipe: GraphRecipe, nodes: int, asked: bool, say: LogFunction) -> GraphRecipe:
    """Adapt the recipe to the number of nodes, which must exceed the number of components."""
    if nodes < FEWEST_NODES:
        raise EigenmapError(f"{nodes} nodes are too few to learn from; give at least {FEWEST_NODES}.")
    if recipe.n_components < nodes:
        return recipe
    if asked:
        raise EigenmapError(f"{recipe.n_components:,} components cannot be learned from {nodes:,} nodes.")
    say(f"{nodes:,} nodes allow {nodes - 1:,} components, not {recipe.n_components:,}.")
    return recipe.but(n_components=nodes - 1)


def _with_fewer_steps(recipe: GraphRecipe, edges: int, say: LogFunction) -> GraphRecipe:
    """Limit the passes over the edges of a small graph."""
    steps = usual_steps(recipe.steps, edges, recipe.batch_size)
    if steps < recipe.steps:
        say(f"The graph is small: {steps:,} steps instead of {recipe.steps:,}; set steps for another number.")
    return recipe.but(steps=steps)


def _placed(walk: Adjacency, x: Tensor | SparseRows, device: torch.device) -> tuple[Adjacency, Tensor | SparseRows]:
    """Move edges and features to the GPU if they fit; edges have priority, and whatever does not fit stays in place."""
    if device.type != "cuda":
        return walk.to(device), x
    room = RESIDENT * torch.cuda.mem_get_info(device)[0]
    if walk.nbytes < room:
        walk, room = walk.to(device), room - walk.nbytes
    return walk, x.to(device) if x.nbytes < room else x


def _standardise(encoder: ResidualMLP, x: Tensor | SparseRows) -> None:
    """Let the encoder standardise dense features; sparse ones keep their scale, so that zeros stay zeros."""
    if isinstance(x, SparseRows):
        return
    strips = _sample(x)
    total = sum(map(len, strips))
    mean = torch.stack([x[strip].double().sum(0) for strip in strips]).sum(0) / total
    squares = torch.stack([(x[strip].double() - mean).square().sum(0) for strip in strips]).sum(0)
    mean, deviation = mean.cpu(), (squares / total).sqrt().cpu()
    # A deviation below the rounding error of the feature's values counts as constant.
    rounding = max(2 * torch.finfo(x.dtype).eps, 1e-12) if x.is_floating_point() else 1e-12
    encoder.standardise(mean, torch.where(deviation > rounding * mean.abs(), deviation, 0.0))
