"""Fitting graphs: from nodes with features and edges to a trained, ordered model in one call.

model = eigenmap.fit_graph("cora.npz", n_components=64)
codes = model.encode(features_of_new_nodes, dim=16)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from eigenmap.core.arguments import whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.core.logging import LogFunction
from eigenmap.data.graphs.adjacency import Adjacency
from eigenmap.data.graphs.graph import load_graph
from eigenmap.fitting import pipeline
from eigenmap.fitting.align import sources_of
from eigenmap.fitting.evidence import node_evidence
from eigenmap.fitting.neighbours import choose, training_edges
from eigenmap.fitting.options import RunOptions, check_length
from eigenmap.fitting.problem import Problem
from eigenmap.model import Eigenmap, NodeEncoderSpec, NodeInput
from eigenmap.networks import Network, NodeFeatures, NodeNetwork, ResidualMLP, SparseRows
from eigenmap.objectives import Objective, build
from eigenmap.recipes.graph import GRAPH, MANY_NODES, NARROW, WIDE, GraphRecipe, get_graph_recipe, objective_options
from eigenmap.recipes.recipe import identity
from eigenmap.relations.diffusion import check_walks, diffuse
from eigenmap.relations.feature_propagation import propagated_features
from eigenmap.relations.graph import GraphPairs, NodeBlocks, check_held_out, check_pairs, hold_out_edges
from eigenmap.relations.propagation import Propagation, Smoothing
from eigenmap.spectrum import Alignment
from eigenmap.training import TrainingConfig
from eigenmap.training.config import Accelerator
from eigenmap.training.launch import machines
from eigenmap.training.progress import Progress

if TYPE_CHECKING:
    from lightning_fabric import Fabric

FEWEST_NODES = 4
"""Below this there is nothing to tell apart."""

MOST_FEATURE_HOPS = 10
"""Averages beyond that are all alike."""

RESIDENT = 0.5
"""Edges and features go to the GPU where they need no more than this share of its free memory."""


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
    say: Callable[[str], None] | None = None,
    **settings: Any,
) -> Eigenmap:
    """Learn ordered codes of nodes from a graph; afterwards features alone are enough, also for nodes never seen.

    Args:
        graph: an .npz file or a folder (see docs/graphs.md), a `Graph`, (x, edge_index), a PyG `Data`, a scipy sparse
            adjacency matrix or a networkx graph.
        n_components: how many features to learn; codes can be cut anywhere below.
        x: features of the nodes, where the graph has none.
        recipe: "auto", "paper", or a `GraphRecipe`.
        out: folder for the model, checkpoints and metrics; without it nothing is written.
        resume: go on from the last checkpoint in `out`.
        force: write into `out` although there is a run in it.
        minutes: length of training in minutes, in place of the recipe's steps.
        seed: of everything random; on a CPU the same seed and number of threads give the same model.
        threads: CPU threads for training; by default measured at the start, unless OMP_NUM_THREADS is set.
        device: "auto", "cpu" or "cuda"; `devices` of them on each of `nodes` machines. Under torchrun leave both out.
        tensorboard: write TensorBoard files beside metrics.jsonl.
        progress: a progress bar (True), nothing (False), or an object of your own.
        say: called with what is worth knowing in between (components, isolated nodes, rank found).
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
        threads=threads,
        length_given=minutes is not None or settings.get("steps") is not None,
    )
    chosen = recipe if isinstance(recipe, GraphRecipe) else get_graph_recipe(recipe)
    chosen = chosen.but(n_components=n_components, **settings)
    check_length(settings.get("steps"), minutes)
    machines(options.config(chosen, chosen.steps))  # refused before anything is read
    if chosen.sampler == "node-blocks" and chosen.teleport == GRAPH.teleport:  # which nobody asked for
        chosen = chosen.but(teleport=0.0)
    _check_relation(chosen, build(chosen.objective, **objective_options(chosen)))

    data = load_graph(graph, x)
    _check_variety(data.x)
    walk = data.walk(chosen.directed, chosen.self_loops)
    chosen = _fitted(chosen, len(data), n_components is not None, options.say)
    words = _mostly_zero(data.x)
    if chosen.feature_dropout is None:
        chosen = chosen.but(feature_dropout=0.5 if words else 0.0)
    chosen = chosen.but(width=chosen.width or (NARROW if words or len(data) < MANY_NODES else WIDE))
    about, digest = describe(walk), data.digest(walk)
    _report(about, walk.cumulative is not None, options.say)
    task = GraphTask(chosen, walk, data.x, words, about, digest)
    if chosen.go_on:
        task = replace(task, walk=diffuse(data, chosen.go_on, chosen.walks, options.seed).walk(), edges=walk)
    return pipeline.fit(task, options)


@dataclass(frozen=True)
class GraphTask:
    """A graph to learn from: the two ends of an edge, or of a walk, belong together.

    Attributes:
        recipe: all settings.
        walk: the edges.
        x: features of the nodes.
        words: whether features are like bags of words, which keep their scale.
        about: what `describe` says of the graph.
        edges: those of the graph, where `walk` has the ends of longer walks; else None.
        digest: tells this graph from others when a run is resumed.

    """

    recipe: GraphRecipe
    walk: Adjacency
    x: Tensor | SparseRows
    words: bool
    about: dict[str, int]
    digest: str
    edges: Adjacency | None = None

    @property
    def steps(self) -> int:
        """The recipe's."""
        return self.recipe.steps

    @property
    def step_in_words(self) -> str:
        """What a step looks at."""
        return f"{self.recipe.batch_size:,} edges"

    def problem(self, fabric: Fabric, config: TrainingConfig) -> Problem:
        """Walks over training edges, held-out edges, a perceptron on node features and an objective."""
        recipe, seed = self.recipe, config.seed
        node = NodeInput(self.x.shape[1], recipe.feature_hops)
        assert recipe.width is not None
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
            evidence=lambda: node_evidence(nodes, pairs, sources_of(recipe.codes), seed, objective.ordered),
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
                encode, features, self._judging(pairs, seed), recipe.n_components, seed, wanted_way(recipe)
            ),
        )

    def _seen(self, seed: int) -> Tensor | SparseRows:
        """What the network sees: features, and their averages over training edges if the recipe asks for them."""
        if self.recipe.feature_hops == 0:
            return self.x
        held_out = hold_out_edges(self.walk, self.recipe.held_out, seed=seed)
        walk = self.edges or training_edges(self.walk, held_out)
        return propagated_features(self.x, Smoothing.of(walk), self.recipe.feature_hops)

    def _judging(self, pairs: GraphPairs, seed: int) -> GraphPairs:
        """The edges on which ways to use neighbours are judged: those of the graph, where pairs are ends of walks."""
        if self.edges is None:
            return pairs
        return GraphPairs(self.edges, 2, seed, held_out=hold_out_edges(self.edges, self.recipe.held_out, seed=seed))

    def _facts(self, pairs: GraphPairs, alignment: Alignment, say: LogFunction) -> dict[str, Any]:
        """What the graph is, and how many of the eigenvalues are positive beyond doubt."""
        positive = int((alignment.eigenvalues > 2 * alignment.noise).sum())
        where = _judged_on(self.recipe, pairs)
        say(f"{positive} of {alignment.n_components} eigenvalues are positive beyond doubt on {where}.")
        return {
            "graph": {**self.about, "positive_eigenvalues": positive},
            "held_out_edges": 0 if pairs.held_out is None else len(pairs.held_out.keys),
        }


def wanted_way(recipe: GraphRecipe) -> Propagation | None:
    """The way to use neighbours that a recipe asks for; None to choose one."""
    if recipe.neighbours == "auto":
        return None
    return Propagation(recipe.neighbours, recipe.restart if recipe.neighbours == "pagerank" else 0.0)


def _check_relation(recipe: GraphRecipe, objective: Objective) -> None:
    """Refuse pairs that cannot be drawn, before anything is read."""
    check_pairs(recipe.hops, recipe.start, recipe.teleport, recipe.lazy)
    check_held_out(recipe.held_out)
    wanted_way(recipe)
    whole_number(recipe.feature_hops, "feature_hops", 0, MOST_FEATURE_HOPS)
    if recipe.feature_hops and recipe.directed != "symmetrise":
        raise EigenmapError('feature_hops averages over undirected edges: it needs directed="symmetrise".')
    if recipe.sampler == "node-blocks":
        _check_blocks(recipe, objective)
    if recipe.batch_size < 2:
        raise EigenmapError("batch_size must be at least 2: what is learned is how the nodes of a batch differ.")
    if not recipe.go_on:
        return
    check_walks(recipe.go_on, recipe.walks)
    if recipe.directed != "symmetrise" or recipe.sampler != "edges" or recipe.self_loops != "remove":
        raise EigenmapError(
            'Longer walks (go_on above 0) need directed="symmetrise", self_loops="remove" and sampler="edges".'
        )


def _check_blocks(recipe: GraphRecipe, objective: Objective) -> None:
    """Refuse what node blocks do not know, and an objective that cannot take the kernel between two of them."""
    if (recipe.hops, recipe.start, recipe.lazy, recipe.teleport) != (1, "degree", 0.0, 0.0):
        raise EigenmapError(
            "Node blocks are as published, single edges by degree: leave hops, start, lazy and teleport out."
        )
    objective(torch.ones(4, 3), torch.ones(4, 3), torch.eye(4).to_sparse())


def _check_variety(x: Tensor | SparseRows) -> None:
    """Codes are functions of features: features that are the same for all nodes give one code."""
    if isinstance(x, SparseRows):
        varied = _rows_differ(x)
    else:
        varied = any(bool((part != x[:1]).any()) for part in torch.split(x, 1 << 16))
    if varied:
        return
    raise EigenmapError(
        "All nodes have the same features, so that no code could tell them apart; give features that differ (to embed "
        "one fixed graph, one-hot ones: scipy.sparse.identity(n))."
    )


def _rows_differ(x: SparseRows) -> bool:
    lengths = x.offsets.diff()
    if bool((lengths != lengths[0]).any()):
        return True
    parts = [x.columns] if x.values is None else [x.columns, x.values]
    rows = [part.reshape(len(x), -1) for part in parts]
    return any(bool((part != part[:1]).any()) for part in rows)


def _mostly_zero(x: Tensor | SparseRows) -> bool:
    """Whether features are like bags of words: fewer than one in ten is not zero (dense ones: in a sample)."""
    if isinstance(x, SparseRows):
        return len(x.columns) < x.shape[0] * x.shape[1] / 10
    rows = _sample(x)
    return sum(int((x[strip] != 0).sum()) for strip in rows) < sum(map(len, rows)) * x.shape[1] / 10


def _sample(x: Tensor) -> tuple[Tensor, ...]:
    """Numbers of up to 100,000 rows, in strips: the features may be a memory map, and larger than memory."""
    rows = torch.linspace(0, len(x) - 1, min(len(x), 100_000)).long()
    # Beyond 16 million nodes the last number is rounded, maybe up.
    return torch.split(rows.clamp_(max=len(x) - 1).to(x.device), 4096)


def _pairs(recipe: GraphRecipe, walk: Adjacency, seed: int, fabric: Fabric) -> GraphPairs:
    """The walks of a recipe, some edges held out: what is trained on (but for node blocks) and aligned on."""
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
    """What eigenvalues come from, in words."""
    if pairs.held_out is None:
        return "the training edges (none were held out)"
    if recipe.sampler == "node-blocks":
        return "edges that the blocks held too"
    return "held-out pairs of ends of walks" if recipe.go_on else "held-out edges"


def _blocks(recipe: GraphRecipe, walk: Adjacency, seed: int, fabric: Fabric) -> NodeBlocks:
    if fabric.world_size > 1:
        raise EigenmapError("Node blocks lose rows without an edge, so they need a single process; sample edges.")
    return NodeBlocks(walk, recipe.batch_size, seed)


def describe(walk: Adjacency) -> dict[str, int]:
    """Nodes, edges, isolated nodes, connected components (isolated nodes aside) and what was merged or left out."""
    degrees = walk.indptr.diff().cpu()
    found, label = walk.components()
    alone = torch.bincount(label, minlength=found)[label] == 1
    isolated = int((alone & (degrees == 0)).sum())  # a self-loop that is kept is an edge
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
        f"{about['nodes']:,} nodes, {about['edges']:,} edges, {about['components']:,} connected components, "
        f"largest degree {about['largest_degree']:,}."
    )
    if about["isolated"]:
        say(f"{about['isolated']:,} nodes have no edge: nothing is learned from them, but they get codes.")
    if about["repeated_edges_merged"]:
        added = ", and their weights are added" if weighted else ""
        say(f"{about['repeated_edges_merged']:,} edges are listed more than once and count once{added}.")
    if about["self_loops_left_out"]:
        say(f"{about['self_loops_left_out']:,} self-loops are left out.")


def _fitted(recipe: GraphRecipe, nodes: int, asked: bool, say: LogFunction) -> GraphRecipe:
    """The recipe for so many nodes: as many components as there are nodes make no sense."""
    if nodes < FEWEST_NODES:
        raise EigenmapError(f"{nodes} nodes are too few to learn from; give at least {FEWEST_NODES}.")
    if recipe.n_components < nodes:
        return recipe
    if asked:
        raise EigenmapError(f"{recipe.n_components:,} components cannot be learned from {nodes:,} nodes.")
    say(f"{nodes:,} nodes allow for {nodes - 1:,} components, not {recipe.n_components:,}.")
    return recipe.but(n_components=nodes - 1)


def _placed(walk: Adjacency, x: Tensor | SparseRows, device: torch.device) -> tuple[Adjacency, Tensor | SparseRows]:
    """Edges and features on the GPU where they fit; else the features stay in memory or on disk, then the edges too."""
    if device.type != "cuda":
        return walk.to(device), x
    room = RESIDENT * torch.cuda.mem_get_info(device)[0]
    if walk.nbytes < room:
        walk, room = walk.to(device), room - walk.nbytes
    return walk, x.to(device) if x.nbytes < room else x


def _standardise(encoder: ResidualMLP, x: Tensor | SparseRows) -> None:
    """Give the encoder the scale of dense features; sparse ones keep theirs, or their zeros would be lost."""
    if isinstance(x, SparseRows):
        return
    strips = _sample(x)
    count = sum(map(len, strips))
    mean = torch.stack([x[strip].double().sum(0) for strip in strips]).sum(0) / count
    squares = torch.stack([(x[strip].double() - mean).square().sum(0) for strip in strips]).sum(0)
    mean, deviation = mean.cpu(), (squares / count).sqrt().cpu()
    # Whatever is smaller than the rounding of a feature's own numbers is no variation.
    rounding = max(2 * torch.finfo(x.dtype).eps, 1e-12) if x.is_floating_point() else 1e-12
    encoder.standardise(mean, torch.where(deviation > rounding * mean.abs(), deviation, 0.0))
