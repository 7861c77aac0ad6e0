r"""Choice of the network's size, made at the beginning of a fit by short fits that held-out edges judge.

A smaller network is cheaper at inference. Candidates are trained for a quarter of the steps each, in the order of
their cost per node. The score of one is the mean reciprocal rank at which the code of one end of a held-out edge finds
that of the other, from features alone, among up to 2,000 (`fitting.neighbours`). A larger network is chosen only if it
scores clearly better than all smaller ones, and the search ends when larger ones no longer do. No label is used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import torch

from eigenmap.core.words import count
from eigenmap.fitting import pipeline
from eigenmap.fitting.neighbours import FEWEST_EDGES, judge, sample_graph
from eigenmap.fitting.options import RunOptions
from eigenmap.fitting.run_folder import last_checkpoint
from eigenmap.networks import SparseRows, code_rows
from eigenmap.relations.graph import MOST_HELD_OUT, GraphPairs
from eigenmap.relations.propagation import Smoothing
from eigenmap.training import CollapseError, DivergedError
from eigenmap.training.launch import machines
from eigenmap.training.threads import restored_threads

if TYPE_CHECKING:
    from eigenmap.fitting.graph import GraphTask


class Size(NamedTuple):
    """Units per layer, and residual blocks of two layers."""

    width: int
    blocks: int

    def cost(self, inputs: float, n_components: int) -> float:
        """Return the multiplications for the code of one node with this many non-zero features."""
        return self.width * (inputs + 2 * self.blocks * self.width + n_components)


SIZES = (Size(256, 0), Size(256, 1), Size(1024, 0), Size(512, 1), Size(1024, 1))
"""Candidates."""
WORTH = 0.03
"""Relative gain in score that a larger network must bring."""
PATIENCE = 2
"""Number of larger candidates without that gain after which the search ends."""
SHARE, FEWEST_STEPS = 0.25, 100
"""Length of a short fit as a share of the steps, and its minimum. Shorter training is not preceded by a choice, nor is
one of a length that was asked for and of which a short fit would be a larger share."""


class Score(TypedDict):
    """Mean reciprocal rank of one size; 0 if its training failed."""

    width: int
    blocks: int
    rank: float


def sized(task: GraphTask, options: RunOptions) -> GraphTask:
    """Return the task with a network of the chosen size, or of that of the run to be resumed.

    Nothing is chosen, and the usual size stays, if the length of training is given in minutes, with node blocks, and on
    several processes.
    """
    saved = last_checkpoint(options.folder, options.resume)
    if saved is not None:
        width, blocks = (saved.settings.get(name) for name in ("width", "blocks"))
        known = isinstance(width, int) and isinstance(blocks, int)
        return replace(task, recipe=task.recipe.but(width=width, blocks=blocks)) if known else task
    alone = machines(options.config(task.recipe, task.steps)) == (1, 1)
    found = choose(task, options) if alone and options.minutes is None and task.recipe.sampler == "edges" else None
    if found is None:
        return task
    (width, blocks), scores = found
    options.say(f"Chosen: width {width:,}, {count(blocks, 'residual block')}; set width or blocks for another size.")
    return replace(task, recipe=task.recipe.but(width=width, blocks=blocks), sizes=scores)


def choose(task: GraphTask, options: RunOptions) -> tuple[Size, list[Score]] | None:
    """Return the size to train, and the scores of the sizes tried; None if there is too little to judge by."""
    least = FEWEST_STEPS / SHARE if options.length_given else FEWEST_STEPS
    if task.steps < least or _held_out_edges(task) < FEWEST_EDGES:
        return None
    steps = short_steps(task.steps)
    quiet = replace(options, folder=None, resume=False, progress=None, tensorboard=False, say=lambda line: None)
    options.say(f"Choosing the size of the network on held-out edges, by fits of {steps:,} steps.")
    chosen, scores = None, list[Score]()
    for size in sorted(SIZES, key=lambda size: size.cost(_inputs(task), task.recipe.n_components)):
        recipe = task.recipe.but(width=size.width, blocks=size.blocks, steps=steps)
        score = Score(width=size.width, blocks=size.blocks, rank=_rank(replace(task, recipe=recipe), quiet))
        scores.append(score)
        if chosen is None or score["rank"] > (1 + WORTH) * chosen["rank"]:
            chosen, since = score, 0
        else:
            since += 1
        if since == PATIENCE:
            break
    assert chosen is not None
    return Size(chosen["width"], chosen["blocks"]), scores


def short_steps(steps: int) -> int:
    """Return the number of steps of a short fit."""
    return max(FEWEST_STEPS, round(SHARE * steps))


def _held_out_edges(task: GraphTask) -> int:
    """Return the number of edges withheld from training that can judge, about."""
    edges = task.edges or task.walk
    return min(int(edges.n_entries // 2 * task.recipe.held_out), MOST_HELD_OUT) if edges.symmetric else 0


def _inputs(task: GraphTask) -> float:
    """Return the mean number of features of a node that a network multiplies: the non-zero ones of sparse rows."""
    return len(task.x.columns) / len(task.x) if isinstance(task.x, SparseRows) else float(task.x.shape[1])


def rank(task: GraphTask, options: RunOptions) -> float:
    """Train a network of a size and return its score."""
    trained = pipeline.train(task, replace(options, steps=task.steps, length_given=True))
    code = pipeline.best_code(trained, options.say)
    pairs = trained.problem.relation
    assert isinstance(pairs, GraphPairs)
    sample = sample_graph(task.judging(pairs, options.seed), options.seed)
    parts = []
    with torch.inference_mode():
        for nodes in torch.split(sample.nodes, 4096):
            features, psi = trained.problem.network(nodes.to(pairs.device))
            parts.append(code.left.alignment.apply(code_rows(features, psi, code.source).cpu()).float())
    return judge((), Smoothing.of(sample.walk), torch.cat(parts).numpy(), sample.ends, options.seed)[0]["rank"]


def _rank(task: GraphTask, options: RunOptions) -> float:
    try:
        with restored_threads():
            return rank(task, options)
    except (CollapseError, DivergedError):
        return 0.0
