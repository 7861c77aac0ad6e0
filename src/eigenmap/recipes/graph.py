"""Recipes for graphs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from eigenmap.core.errors import EigenmapError
from eigenmap.data.graphs.adjacency import Directed, SelfLoops
from eigenmap.recipes.recipe import BaseRecipe, changed
from eigenmap.relations.graph import Sampler, Start
from eigenmap.training.config import RESUME_ANYHOW

NARROW, WIDE = 256, 1024
MANY_NODES = 10_000
"""Minimum number of nodes for a wide network on dense features, where the size is not chosen (docs/graphs.md)."""


def usual_width(words: bool, nodes: int) -> int:
    """Return the width where it is not chosen, for word-like or other features and a number of nodes.

    >>> usual_width(words=False, nodes=100_000), usual_width(words=True, nodes=100_000)
    (1024, 256)
    """
    return NARROW if words or nodes < MANY_NODES else WIDE


USUAL_BLOCKS = 1
"""Default number of residual blocks."""

MOST_PASSES, FEWEST_STEPS = 64, 100
"""Default maximum number of passes over the edges, and minimum number of steps. In longer training of a small graph,
the two ends of held-out edges share less and less of their codes."""


def usual_steps(steps: int, edges: int, batch_size: int) -> int:
    """Return the default number of steps for a graph: fewer than those of the recipe if it has few edges.

    >>> usual_steps(1500, edges=5_278, batch_size=1024), usual_steps(1500, edges=250_000, batch_size=1024)
    (330, 1500)
    """
    return min(steps, max(FEWEST_STEPS, -(-MOST_PASSES * edges // batch_size)))


@dataclass(frozen=True, kw_only=True)
class GraphRecipe(BaseRecipe):
    """All settings of a fit on a graph; change some with `recipe.but(width=512, hops=2)`.

    Attributes:
        width: units per layer of the residual MLP, which has `blocks` of two layers each after the first. If neither is
            given, both are chosen on held-out edges (`fitting.size`). Where there is no choice, None means 1,024 for
            dense features and at least 10,000 nodes, else 256, and one block.
        feature_dropout: probability of hiding an input feature in training; None means 0.5 for word-like features
            (fewer than one in ten is non-zero), else 0.
        standardise: whether dense features are scaled to mean 0 and variance 1; word-like and sparse ones never are.
        sampler: "edges", or the paper's "node-blocks".
        hops: 1 or 2 steps of the walk between the two nodes of a pair.
        start: distribution of the first node, "degree" or "uniform"; "balanced" is "degree" sampled with less variance.
        go_on: probability that the walk continues after each step; above 0, pairs are the ends of longer walks
            (`relations.diffusion`), with `walks` walks from each edge in each direction.
        teleport: probability that the second node is a random node.
        lazy: probability that the second node is the first one.
        directed: "symmetrise", or "bipartite": two nodes are related if they point to the same node.
        self_loops: "remove" or "keep".
        held_out: share of the edges withheld from training to evaluate the codes, at most 10,000 edges.
        batch_size: edges per step (for node blocks: nodes on each side).
        steps: number of training steps. With the recipe "auto" and no length given, a small graph gets fewer: at most
            64 passes over its edges.
        codes: network output that becomes the code; "auto" decides on held-out edges.
        neighbours: use of neighbours by codes when edges are available at inference: "none", "S", "S2", "concat" or
            "pagerank" (`relations.propagation`); "auto" chooses at the end of the fit, without labels.
        restart: restart probability of "pagerank".
        feature_hops: if above 0, the network also sees features averaged over 1 ... `feature_hops` steps (SIGN), and
            edges are needed at inference.

    The other settings are those of `BaseRecipe` and `training.TrainingConfig`.
    """

    fewest_steps_to_a_check: ClassVar[int] = 100

    name: str = field(default="graph", kw_only=False, metadata=RESUME_ANYHOW)
    width: int | None = None
    blocks: int | None = None
    feature_dropout: float | None = None
    # The encoder stores the scale, and so does a checkpoint.
    standardise: bool = field(default=True, metadata=RESUME_ANYHOW)
    n_components: int = 128
    objective: str = "scl"
    sampler: Sampler = "edges"
    hops: int = 1
    start: Start = "degree"
    go_on: float = 0.0
    walks: int = 16
    teleport: float = 0.02
    lazy: float = 0.0
    directed: Directed = "symmetrise"
    self_loops: SelfLoops = "remove"
    held_out: float = 0.1
    batch_size: int = 1024
    steps: int = 1500
    clip_norm: float | None = 1.0
    compile: bool = False
    codes: Literal["auto", "encoder", "projector"] = field(default="encoder", metadata=RESUME_ANYHOW)
    neighbours: Literal["auto", "none", "S", "S2", "concat", "pagerank"] = field(default="auto", metadata=RESUME_ANYHOW)
    restart: float = field(default=0.1, metadata=RESUME_ANYHOW)
    feature_hops: int = field(default=0, metadata=RESUME_ANYHOW)

    def but(self, **settings: Any) -> GraphRecipe:
        """Return this recipe with other values; None leaves a value unchanged."""
        return changed(self, settings)


GRAPH = GraphRecipe()
"""Edges under the degree distribution, spectral contrastive loss, order by alignment."""

PAPER = GraphRecipe(
    name="paper",
    width=2048,
    blocks=5,
    feature_dropout=0.0,
    standardise=False,
    n_components=8192,
    objective="neuralef-unordered",
    objective_options={"alpha": "paper", "scale": 20.0},
    sampler="node-blocks",
    teleport=0.0,
    held_out=0.0,
    batch_size=16_384,
    steps=444_020,
    optimizer="lars",
    lr=0.3,
    weight_decay=0.0,
    warmup=0.0,
    final_lr_fraction=0.0,
    clip_norm=None,
    codes="encoder",
)
"""The published run on OGBN-Products (Deng et al., ICLR 2024): 20 epochs of 149^2 blocks. For comparison only.

Features are not standardised, and probes use the encoder's 2,048 outputs, not the projector's 8,192.
"""

GRAPHS: dict[str, GraphRecipe] = {"auto": GRAPH, PAPER.name: PAPER}
"""Recipes by name."""

PAPER_BLOCK_ALPHA = 3.0
"""The published alpha of 0.3 in the convention of `NeuralEF`: the authors' products are t = 10 times R."""


def get_graph_recipe(name: str) -> GraphRecipe:
    """Look up a recipe by name."""
    if not isinstance(name, str) or name not in GRAPHS:
        raise EigenmapError(f"Unknown recipe {name!r}: choose one of {', '.join(GRAPHS)}.")
    return GRAPHS[name]


def objective_options(recipe: GraphRecipe) -> dict[str, Any]:
    """Return the options of the objective; `alpha="paper"` for node blocks is that of the paper's graph runs."""
    options = dict(recipe.objective_options)
    usual = "paper" if recipe.objective in ("neuralef", "neuralef-unordered") else None
    if recipe.sampler == "node-blocks" and options.get("alpha", usual) == "paper":
        options["alpha"] = PAPER_BLOCK_ALPHA
    return options
