r"""Pipeline of every fit: relation -> train -> align -> codes.

    task = ImageTask(...)                       # validated data and a recipe
    model = fit(task, RunOptions(folder=Path("runs/mine")))

`fit_images`, `fit_graph`, `fit_vectors` and `fit_towers` each build a task. The rest does not depend on the kind of
data: the task states its `Problem` on the devices of the run, the network is trained, its outputs are aligned on
held-out pairs, and the best alignment becomes the model's code.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eigenmap.core.devices import CPU, has_float64
from eigenmap.core.logging import LogFunction
from eigenmap.fitting import align
from eigenmap.fitting.length import asked_steps, settle
from eigenmap.fitting.neighbours import Choice, Encode
from eigenmap.fitting.options import RunOptions
from eigenmap.fitting.problem import Code, Problem, Side, Task
from eigenmap.fitting.run_folder import clear_run, last_checkpoint
from eigenmap.model import Eigenmap
from eigenmap.training import TrainingConfig, loop, start
from eigenmap.training.launch import alone, data_place
from eigenmap.training.loop import TrainingResult
from eigenmap.training.provenance import training_provenance
from eigenmap.training.threads import restored_threads

if TYPE_CHECKING:
    from lightning_fabric import Fabric

WORTH_SAYING = 10.0
"""Announce the alignment if it is expected to take longer than this many seconds; a terminal always shows a spinner."""
NEARLY_ALL = 0.9
"""Announce that features are ordered with fewer pairs if it is less than this share of them."""


@dataclass(frozen=True)
class Trained:
    """Problem whose network has been trained, if it needs training."""

    task: Task
    problem: Problem
    config: TrainingConfig
    fabric: Fabric
    result: TrainingResult
    left: float | None = None
    """Seconds left for ordering the features, of a run whose length was given in minutes."""


def fit(task: Task, options: RunOptions) -> Eigenmap:
    """Train, align, and save the model if the run has a folder."""
    with restored_threads():
        return _fit(task, options)


def _fit(task: Task, options: RunOptions) -> Eigenmap:
    trained = train(task, options)
    problem = trained.problem
    began = time.perf_counter()
    with options.waiting("ordering the features"):
        code = best_code(trained, options.say)
    record = training_provenance(
        task.recipe, options.seed, trained.result, time.perf_counter() - began, trained.fabric.device
    )
    record |= problem.facts(code.left.alignment, options.say)
    model = as_model(code, record)
    if problem.neighbours is not None:
        _choose_neighbours(model, problem.neighbours, options.say)
    if options.folder is not None and trained.fabric.is_global_zero:
        if trained.result.steps == 0:
            clear_run(options.folder)
        model.save(options.folder)
    return model


def as_model(code: Code, record: Mapping[str, Any]) -> Eigenmap:
    """Build the model of a code, including the model of its right side."""
    left, right = code.left, code.right
    other = None if right is None else Eigenmap(right.network, right.alignment, code.source, right.input, right.encoder)
    return Eigenmap(left.network, left.alignment, code.source, left.input, left.encoder, record, right=other)


def _choose_neighbours(model: Eigenmap, choose: Callable[[Encode], Choice], say: LogFunction) -> None:
    """Choose how codes use neighbours if there are edges at inference."""
    choice = choose(model.codes_of)
    model.neighbours = choice.codes
    model.training["neighbours"] = choice.record()
    if choice.shared is not None:
        way = choice.codes.propagation.in_words
        say(f"The ends of held-out edges share {choice.shared:.0%} of their codes; way to use neighbours: {way}.")


def train(task: Task, options: RunOptions) -> Trained:
    """Train the network of a task for the length given in the options, or else in its recipe."""
    saved = last_checkpoint(options.folder, options.resume)
    asked = asked_steps(task, options, saved)
    if asked == 0:
        return without_training(task, options)
    config = options.config(task.recipe, asked)
    fabric = start(config)
    ends = options.ends()
    problem = task.problem(data_place(fabric), config)
    assert problem.relation is not None  # a task with steps has a relation
    with options.waiting("measuring the speed of training"):
        config, deadline, most_steps = settle(task, problem, config, fabric, options, saved, ends)
    result = loop.train(
        problem.network,
        problem.relation,
        problem.objective,
        config,
        out=options.folder,
        resume=options.resume,
        held_out=problem.held_out,
        monitor=problem.monitor,
        progress=options.progress,
        settings=problem.identity,
        fabric=fabric,
        deadline=deadline,
        most_steps=most_steps,
    )
    if not has_float64(fabric.device):
        problem.network.to(CPU)  # where its features are ordered
    left = None if ends is None else ends - time.perf_counter()
    return Trained(task, problem, config, fabric, result, left)


def without_training(task: Task, options: RunOptions) -> Trained:
    """Prepare a task that needs no training: an encoder trained elsewhere, or a closed form."""
    config = options.config(task.recipe, 1)
    place = alone(config)
    problem = task.problem(place, config)
    problem.network.to(place.device).eval()
    return Trained(task, problem, config, place, TrainingResult(0, 0.0, []))


def best_code(trained: Trained, say: LogFunction) -> Code:
    """Return the output of the network with the best codes on held-out pairs, and its alignment."""
    problem, result, recipe = trained.problem, trained.result, trained.task.recipe
    if problem.code is not None:
        problem.network.eval()
        return problem.code(say)
    assert problem.evidence is not None
    seconds = problem.seconds_to_align(result.seconds / max(1, result.steps), recipe.batch_size)
    share = 1.0
    if trained.left is not None:
        left = max(0.0, trained.left)
        share = trained.fabric.broadcast(1.0 if seconds <= left else left / seconds)
    if share * seconds > WORTH_SAYING:
        say(f"Training is complete; ordering the features takes about {share * seconds:.0f} s more.")
    if share < NEARLY_ALL:
        say(f"Time is short: features are ordered with {share:.0%} of the usual pairs (at least about 1,500).")
    problem.network.eval()
    evidence = problem.evidence(share)
    aligned = align.align_outputs(evidence, align.sources_of(recipe.codes, evidence.staged), recipe.n_components)
    source, alignment = align.best_output(aligned, recipe.n_components, say)
    return Code(source, Side(problem.stored, alignment, problem.input, problem.encoder))
