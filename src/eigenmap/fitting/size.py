r"""Choice of the network's size at the beginning of a fit: short fits, judged by held-out edges.

A smaller network is cheaper at inference. Candidates are trained for a quarter of the steps each, in the order of
their cost per node. The score of one is the mean reciprocal rank at which the code of one end of a held-out edge finds
that of the other, from features alone, among up to 2,000 (`fitting.neighbours`). A larger network is chosen only if it
is better than the best smaller one by two standard errors, by 3 %, and by 5 % for every doubling of the cost. The
search ends when two in a row are not. It is not chosen either if it hardly finds the other end: where features say
little about edges, it would only memorise more of them. No label is used.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import torch

from eigenmap.core.words import count
from eigenmap.fitting import pipeline
from eigenmap.fitting.neighbours import FEWEST_EDGES, questions, reciprocal_ranks, sample_graph
from eigenmap.fitting.options import RunOptions
from eigenmap.fitting.run_folder import last_checkpoint
from eigenmap.networks import SparseRows, code_rows
from eigenmap.relations.graph import MOST_HELD_OUT, GraphPairs
from eigenmap.training import CollapseError, DivergedError
from eigenmap.training.launch import machines
from eigenmap.training.threads import restored_threads

if TYPE_CHECKING:
    from eigenmap.fitting.graph import GraphTask

Ranks = npt.NDArray[np.float64]


class Size(NamedTuple):
    """Units per layer, and residual blocks of two layers."""

    width: int
    blocks: int

    def cost(self, inputs: float, n_components: int) -> float:
        """Return the multiplications for the code of one node with this many non-zero features."""
        return self.width * (inputs + 2 * self.blocks * self.width + n_components)


SIZES = (Size(256, 0), Size(256, 1), Size(1024, 0), Size(2048, 0), Size(512, 1), Size(1024, 1))
"""Candidates."""
WORTH, WORTH_OF_DOUBLING, CERTAIN = 0.03, 0.05, 2.0
"""Gain in score that a larger network must bring: as a share, as a share per doubling of the cost, and in standard
errors of the mean difference."""
FOUND = 0.05
"""Minimum score of a larger network; by chance it is about 0.004 among 2,000."""
PATIENCE = 2
"""Number of larger candidates without that gain after which the search ends."""
SHARE, FEWEST_STEPS = 0.25, 100
"""Length of a short fit as a share of the steps, and its minimum. Shorter training is not preceded by a choice, nor is
one of a length that was asked for and of which a short fit would be a larger share."""


class Score(TypedDict):
    """Mean reciprocal rank of one size, 0 if its training failed, and its multiplications per node."""

    width: int
    blocks: int
    rank: float
    cost: float


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
    chosen, best, since, scores = None, np.zeros(1), 0, list[Score]()
    cost = {size: size.cost(_inputs(task), task.recipe.n_components) for size in SIZES}
    for size in sorted(SIZES, key=cost.__getitem__):
        recipe = task.recipe.but(width=size.width, blocks=size.blocks, steps=steps)
        with options.waiting(f"trying width {size.width:,}, {count(size.blocks, 'residual block')}"):
            ranks = _ranks(replace(task, recipe=recipe), quiet)
        scores.append(Score(width=size.width, blocks=size.blocks, rank=float(ranks.mean()), cost=cost[size]))
        if chosen is None or not best.any() or is_better(ranks, best, cost[size] / cost[chosen]):
            chosen, best, since = size, ranks, 0
        else:
            since += 1
        if since >= PATIENCE and best.any():
            break
    return None if chosen is None or not best.any() else (chosen, scores)


def is_better(ranks: Ranks, than: Ranks, times_the_cost: float) -> bool:
    """Tell whether reciprocal ranks are worth their cost, and clearly higher than a cheaper network's for the edges."""
    gain = ranks - than
    error = float(gain.std()) / math.sqrt(len(gain))
    return is_worth_its_cost(float(ranks.mean()), float(than.mean()), times_the_cost) and gain.mean() > CERTAIN * error


def is_worth_its_cost(rank: float, than: float, times_the_cost: float) -> bool:
    """Tell whether a network finds edges at all, and enough more than a cheaper one to be worth its cost."""
    gain = max(WORTH, WORTH_OF_DOUBLING * math.log2(times_the_cost))
    return rank >= FOUND and rank - than > gain * than


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


def reciprocal_ranks_of(task: GraphTask, options: RunOptions) -> Ranks:
    """Train a network of a size; return how well the code of each end of held-out edges finds that of the other."""
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
    own = torch.cat(parts).numpy()
    query, target, others = questions(sample.ends, len(own), options.seed)
    return reciprocal_ranks(own[query], own, target, others)


def _ranks(task: GraphTask, options: RunOptions) -> Ranks:
    """Return the reciprocal ranks, or 0 if training failed."""
    try:
        with restored_threads():
            return reciprocal_ranks_of(task, options)
    except (CollapseError, DivergedError):
        return np.zeros(1)
